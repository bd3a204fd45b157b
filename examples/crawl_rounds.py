"""A crawl in rounds: pages are fetched site by site, and each round is much like the round before.

    -    pages.groupBy("site").applyInPandas(fetch, FETCHED)
    +    unskew.groupBy(pages, "site", plan=plan).applyInPandas(fetch, FETCHED)

A round is measured while it runs (`unskew.observe`), without an extra job, and the plan for the next round moves as few
sites as possible. The first round has no plan yet, so `groupBy` measures before it starts.
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
    """The same with unskew."""
    return unskew.groupBy(pages, "site", slots=SLOTS, plan=plan).applyInPandas(fetch, FETCHED)


def fetch(pages: pd.DataFrame) -> pd.DataFrame:
    """Stands for a polite crawler, which fetches the pages of a site one by one."""
    row = {"site": pages["site"].iloc[0], "pages": len(pages), "last": pages["page"].max()}
    return pd.DataFrame([row])


def pages_of(spark: SparkSession, number: int, pages: int = 1500) -> DataFrame:
    """The pages to fetch in a round: a few sites have most of them, and one site is new in every round."""
    random = np.random.default_rng(number)
    sites = random.zipf(1.4, pages) % 80
    sites[random.random(pages) < 0.1] = 100 + number
    rows = [(f"site-{site}.example", f"/{number}/{i}") for i, site in enumerate(sites)]
    return spark.createDataFrame(rows, "site string, page string")


def main(spark: SparkSession) -> None:
    """Crawl three rounds both ways."""
    plan: unskew.Plan | None = None
    for number in range(3):
        pages = pages_of(spark, number)
        observed = unskew.observe(pages, "site")
        fetched = agree(plain(pages), ours(observed.df, plan))
        plan = unskew.plan(observed.histogram, slots=SLOTS, planner="keel", previous=plan)
        moved = 0.0 if plan.migration is None else plan.migration.state_share
        print(
            f"round {number}: {len(fetched)} sites; next plan: imbalance {plan.imbalance:.2f}, {moved:.0%} moves"
        )


if __name__ == "__main__":
    main(session())
