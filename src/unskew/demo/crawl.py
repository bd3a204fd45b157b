"""The demo's second act: a crawl whose pages are fetched site by site, and every page waits as a fetch would.

A few sites have most of the pages. It is a small version of the crawl in the KIP paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.demo.runs import PLAIN, TUNED, UNSKEW, Outcome, Way, compare
from unskew.demo.zipf import zipf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "site string, pages long"


@dataclass(frozen=True)
class Crawl:
    """How large the crawl is, and how skewed."""

    sites: int = 64
    pages: int = 4000
    wait: float = 0.002
    exponent: float = 0.5
    cores: int = 8


def run(spark: SparkSession, crawl: Crawl, step: Callable[[str], None] = lambda _: None) -> Outcome:
    """The crawl in three ways."""
    import unskew

    df, fetch = _pages(spark, crawl), _fetch(crawl.wait)
    slots = 3 * crawl.cores
    tuned = {
        "spark.sql.shuffle.partitions": str(slots),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    ways = [
        Way(PLAIN, lambda: df.groupBy("site").applyInPandas(fetch, SCHEMA), {}),
        Way(TUNED, lambda: df.groupBy("site").applyInPandas(fetch, SCHEMA), tuned),
        Way(UNSKEW, lambda: unskew.groupBy(df, "site", slots=slots).applyInPandas(fetch, SCHEMA), {}),
    ]
    text = (
        f"{crawl.pages:,} pages of {crawl.sites} sites, {1000 * crawl.wait:g} ms per page, on {crawl.cores} cores. "
        "Spark as it comes merges partitions that are small in bytes, however long their rows take. Tuned: that "
        f"switched off, {slots} partitions."
    )
    return Outcome("A function per group that waits", text, crawl.cores, compare(spark, ways, step))


def _fetch(wait: float) -> Callable[[Any], Any]:
    def fetch(rows: Any) -> Any:
        import time

        import pandas as pd

        time.sleep(wait * len(rows))
        return pd.DataFrame({"site": [rows["site"].iloc[0]], "pages": [len(rows)]})

    return fetch


def _pages(spark: SparkSession, crawl: Crawl) -> DataFrame:
    import pyarrow as pa

    random = np.random.default_rng(5)
    sites = random.choice(crawl.sites, crawl.pages, p=zipf(crawl.sites, crawl.exponent))
    names = [f"site-{number:03d}.example" for number in sites]
    return spark.createDataFrame(pa.table({"site": names, "page": np.arange(crawl.pages)}))
