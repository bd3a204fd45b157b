"""Posts by region, then by hashtag: two chained groupings with correlated keys.

    -    posts.groupBy("region").applyInPandas(weigh, WEIGHED).groupBy("hashtag").applyInPandas(summary, SUMMARY)
    +    unskew.groupBy(posts, "region").thenBy("hashtag").applyInPandas(weigh, WEIGHED).applyInPandas(summary, SUMMARY)

Most posts of a region carry only a few of all hashtags. If a region and its hashtags are placed together, the second
operator reads most records where the first one wrote them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import unskew
from examples.local import agree, session

WEIGHED = "region string, hashtag string, weight double"
SUMMARY = "hashtag string, regions long, weight double"


def plain(posts: DataFrame) -> DataFrame:
    """With PySpark alone."""
    weighed = posts.groupBy("region").applyInPandas(weigh, WEIGHED)
    return weighed.groupBy("hashtag").applyInPandas(summary, SUMMARY)


def ours(posts: DataFrame) -> DataFrame:
    """The same with unskew, which puts keys that occur together in one place."""
    weighed = unskew.groupBy(posts, "region", slots=4).thenBy("hashtag").applyInPandas(weigh, WEIGHED)
    return weighed.applyInPandas(summary, SUMMARY)


def weigh(posts: pd.DataFrame) -> pd.DataFrame:
    """Give each post a weight: the more posts its region has, the less it weighs."""
    return posts.assign(weight=1 / len(posts))[["region", "hashtag", "weight"]]


def summary(weighed: pd.DataFrame) -> pd.DataFrame:
    """One row for the hashtag of these rows."""
    # sorted, since the order of rows is not defined and floats add up differently
    weight = round(float(np.sort(weighed["weight"]).sum()), 9)
    row = {"hashtag": weighed["hashtag"].iloc[0], "regions": weighed["region"].nunique(), "weight": weight}
    return pd.DataFrame([row])


def posts_in(spark: SparkSession, posts: int = 2000) -> DataFrame:
    """Posts of twelve regions; four in five carry a hashtag of their own region."""
    random = np.random.default_rng(4)
    regions = random.zipf(1.5, posts) % 12
    owners = np.where(random.random(posts) < 0.8, regions, random.integers(0, 12, posts))
    tags = owners * 10 + random.integers(0, 10, posts)
    rows = [(f"region-{r}", f"#tag{t}") for r, t in zip(regions, tags, strict=True)]
    return spark.createDataFrame(rows, "region string, hashtag string")


def main(spark: SparkSession) -> None:
    """Weigh the hashtags both ways, and print how many records stay where they are."""
    posts = posts_in(spark)
    weighed = agree(plain(posts), ours(posts))
    plan = unskew.plan_chain(posts, ["region", "hashtag"], slots=4)
    stay = f"{plan.locality:.0%} of the records stay in place, {plan.hash_locality:.0%} with hashing"
    print(f"{len(weighed)} hashtags; {stay}")


if __name__ == "__main__":
    main(session())
