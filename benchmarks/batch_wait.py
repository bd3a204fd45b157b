"""Wait-bound work on 16 cores: every record waits as a page fetch would (the crawl of the KIP paper)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import unskew
from benchmarks.bars import Bar
from benchmarks.batch_spark import in_turns, noop, parquet, session, zipf_keys
from benchmarks.sections import save

CORES, SITES, RECORDS, WAIT = 16, 64, 8000, 0.075
"""600 seconds of waiting in total: 37.5 s if spread evenly over 16 cores."""

PAGE = 4096
"""Bytes per record. With very few, AQE would put everything into one task, which would flatter unskew."""

EXPONENTS = (0.3, 0.5, 0.8)
PARTITIONS = (16, 32)

SCHEMA = "site string, pages long"


def fetch(rows: Any) -> Any:
    """Wait for every record of the site."""
    import time

    time.sleep(WAIT * len(rows))
    return rows[["site"]].head(1).assign(pages=len(rows))


def wait() -> None:
    """Speedup over stock Spark, and the share of the possible speedup, by exponent and by number of partitions."""
    spark = session(f"local[{CORES}]")
    details: dict[str, Any] = {}
    shares = []
    warm = _pages(spark, 1.0)
    # start the Python workers and compile the queries
    for _ in range(2):
        few = warm.sample(0.02, seed=1)
        noop(unskew.groupBy(few, "site", slots=CORES, planner="keel").applyInPandas(fetch, SCHEMA))
        noop(few.groupBy("site").applyInPandas(fetch, SCHEMA))
    cases = [(z, 3 * CORES) for z in EXPONENTS] + [(0.5, n) for n in PARTITIONS]
    for exponent, partitions in cases:
        df = _pages(spark, exponent)
        row = _compare(spark, df, partitions)
        shares.append(row["share of the possible speedup"])
        details[f"z={exponent}, N={partitions}"] = row
        print(f"    z={exponent}, N={partitions}: { {k: round(v, 2) for k, v in row.items()} }", flush=True)
    worst = min(shares)
    bar = Bar(
        "wait: speedup / the speedup that the bound allows, worst case", worst, 0.9, at_least=True, unit="×"
    )
    save("batch", "wait", [bar], details)


def _compare(spark: SparkSession, df: DataFrame, partitions: int) -> dict[str, Any]:
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    times = in_turns(
        {
            "stock": lambda: noop(df.groupBy("site").applyInPandas(fetch, SCHEMA)),
            "unskew": lambda: noop(unskew.groupBy(df, "site", slots=partitions).applyInPandas(fetch, SCHEMA)),
        },
        repeat=1,
        warm_up=0,
    )
    heaviest = unskew.measure(df, "site", sample=None).heaviest_share
    possible = RECORDS * WAIT * max(heaviest, 1 / CORES)
    return {
        **times,
        "possible": possible,
        "speedup": times["stock"] / times["unskew"],
        "share of the possible speedup": possible / times["unskew"],
    }


def _pages(spark: SparkSession, exponent: float) -> DataFrame:
    sites = [f"site-{s}" for s in zipf_keys(RECORDS, SITES, exponent, seed=3)]
    random = np.random.default_rng(4)
    bodies = [random.bytes(PAGE) for _ in range(RECORDS)]
    return parquet(spark, pa.table({"site": sites, "body": pa.array(bodies, pa.binary())}), "pages")
