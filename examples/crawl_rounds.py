"""A crawl in rounds: the pages of a round are fetched site by site, and the next round looks much like it.

    -    pages.groupBy("site").applyInPandas(fetch, FETCHED)
    +    unskew.groupBy(pages, "site", plan=plan).applyInPandas(fetch, FETCHED)

A round is counted while it runs (`unskew.observe`), without a job of its own, and the plan for the next one moves as
few sites as it can. The first round has no plan yet: `groupBy` then measures before it starts.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import unskew
from examples.local import agree, session

FETCHED = "site string, pages long, last string"
SLOTS = 6


def plain(pages: DataFrame) -> DataFrame:
    """With PySpark alone."""
    return pages.groupBy("site").applyInPandas(fetch, FETCHED)


def ours(pages: DataFrame, plan: unskew.Plan | None = None) -> DataFrame:
    """The same with measured places."""
    return unskew.groupBy(pages, "site", slots=SLOTS, plan=plan).applyInPandas(fetch, FETCHED)


def fetch(pages: pd.DataFrame) -> pd.DataFrame:
    """Stands for a polite crawler, which takes one page of a site after the other."""
    figures = {"site": pages["site"].iloc[0], "pages": len(pages), "last": pages["page"].max()}
    return pd.DataFrame([figures])


def found_in(spark: SparkSession, number: int, pages: int = 1500) -> DataFrame:
    """The pages to fetch in a round: a few sites have most, and each round some new one is among them."""
    random = np.random.default_rng(number)
    sites = random.zipf(1.4, pages) % 80
    sites[random.random(pages) < 0.1] = 100 + number
    rows = [(f"site-{site}.example", f"/{number}/{i}") for i, site in enumerate(sites)]
    return spark.createDataFrame(rows, "site string, page string")


def main(spark: SparkSession) -> None:
    """Crawl three rounds both ways."""
    plan: unskew.Plan | None = None
    for number in range(3):
        pages = found_in(spark, number)
        observed = unskew.observe(pages, "site")
        fetched = agree(plain(pages), ours(observed.df, plan))
        plan = unskew.plan(observed.histogram, slots=SLOTS, planner="keel", previous=plan)
        moved = (
            "" if plan.migration is None else f", {plan.migration.state_share:.0%} of the sites' load moves"
        )
        print(f"round {number}: {len(fetched)} sites; next: imbalance {plan.imbalance:.2f}{moved}")


if __name__ == "__main__":
    main(session())
