"""Posts by region, then by hashtag: two groupings in a row, whose keys are correlated.

    -    posts.groupBy("region").applyInPandas(weigh, WEIGHED).groupBy("hashtag").applyInPandas(summary, SUMMARY)
    +    unskew.groupBy(posts, "region").thenBy("hashtag").applyInPandas(weigh, WEIGHED).applyInPandas(summary, SUMMARY)

Most posts of a region carry few of all hashtags. Placed together, most records are read by the second operator where
the first one wrote them.
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
    """The same, with keys that occur together in one place."""
    weighed = unskew.groupBy(posts, "region", slots=4).thenBy("hashtag").applyInPandas(weigh, WEIGHED)
    return weighed.applyInPandas(summary, SUMMARY)  # type: ignore[return-value]


def weigh(posts: pd.DataFrame) -> pd.DataFrame:
    """Each post weighs less the more posts its region has."""
    return posts.assign(weight=1 / len(posts))[["region", "hashtag", "weight"]]


def summary(weighed: pd.DataFrame) -> pd.DataFrame:
    """One row for the hashtag of these rows."""
    weight = round(float(np.sort(weighed["weight"]).sum()), 9)  # the order of rows is not defined
    return pd.DataFrame(
        [{"hashtag": weighed["hashtag"].iloc[0], "regions": weighed["region"].nunique(), "weight": weight}]
    )


def posts_in(spark: SparkSession, posts: int = 2000) -> DataFrame:
    """Posts of twelve regions; four in five carry a hashtag of their own region."""
    random = np.random.default_rng(4)
    regions = random.zipf(1.5, posts) % 12
    owners = np.where(random.random(posts) < 0.8, regions, random.integers(0, 12, posts))
    tags = owners * 10 + random.integers(0, 10, posts)
    rows = [(f"region-{r}", f"#tag{t}") for r, t in zip(regions, tags, strict=True)]
    return spark.createDataFrame(rows, "region string, hashtag string")


def main(spark: SparkSession) -> None:
    """Weigh the hashtags both ways, and say how many records stay where they are."""
    posts = posts_in(spark)
    weighed = agree(plain(posts), ours(posts))
    plan = unskew.plan_chain(posts, ["region", "hashtag"], slots=4)
    print(
        f"{len(weighed)} hashtags; {plan.locality:.0%} of the records stay, {plan.hash_locality:.0%} with hashing"
    )


if __name__ == "__main__":
    main(session())
