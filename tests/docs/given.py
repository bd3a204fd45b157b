"""What the examples on the pages take for granted: a skewed table of clicks, the same as streams, small functions."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew

ROWS, FILES = 3000, 3
EPOCH, HOUR = 1_700_000_000_000_000, 3_600_000_000  # microseconds
COLUMNS = "user string, amount double, bytes long, at timestamp, page string, region string, hashtag string"


def clicks(seed: int) -> pa.Table:
    """Clicks of users of whom a few are busy; hashtags go with regions."""
    random = np.random.default_rng(seed)
    users = random.zipf(1.5, ROWS) % 200
    regions = users % 7
    return pa.table(
        {
            "user": [f"user-{u}" for u in users],
            "amount": random.random(ROWS),
            "bytes": random.integers(1, 1000, ROWS),
            "at": pa.array(EPOCH + np.sort(random.integers(0, HOUR, ROWS)), pa.timestamp("us", "UTC")),
            "page": [f"/{p}" for p in random.integers(0, 20, ROWS)],
            "region": [f"region-{r}" for r in regions],
            "hashtag": [f"#{t}" for t in regions * 10 + random.integers(0, 10, ROWS)],
        }
    )


def names(spark: SparkSession, data: Path) -> dict[str, Any]:
    """The names that the pages use without defining them."""
    (data / "clicks").mkdir(parents=True)
    for number in range(FILES):
        pq.write_table(clicks(number), data / "clicks" / f"{number}.parquet")
    df = spark.read.schema(COLUMNS).parquet(str(data / "clicks"))
    users = df.select("user", F.col("region").alias("home")).distinct()
    live = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(data / "clicks"))
    return {
        "__name__": "__main__",  # so that functions go to the workers by value
        "spark": spark,
        "unskew": unskew,
        "df": df,
        "events": df,
        "last_week": df,
        "users": users,
        "clicks": live,
        "posts": live,
        "score": score,
        "schema": "user string, score double",
        "rank": rank,
        "ranked": "region string, hashtag string, score double",
        "total": total,
        "totals": "hashtag string, total double",
    }


def score(rows: pd.DataFrame) -> pd.DataFrame:
    """A function for `applyInPandas`."""
    return pd.DataFrame({"user": rows["user"].head(1), "score": rows["amount"].mean()})


def rank(rows: pd.DataFrame) -> pd.DataFrame:
    """A function for the first of two operators."""
    scores = rows.groupby(["region", "hashtag"], as_index=False)["amount"].sum()
    return scores.rename(columns={"amount": "score"})


def total(rows: pd.DataFrame) -> pd.DataFrame:
    """A function for the second of two operators."""
    return pd.DataFrame({"hashtag": rows["hashtag"].head(1), "total": rows["score"].sum()})


@singledispatch
def carry_out(value: object, folder: Path) -> None:
    """Do what a block only describes: a DataFrame is computed, a live operator run on what there is."""


@carry_out.register
def _(value: DataFrame, folder: Path) -> None:
    if not value.isStreaming:
        value.write.format("noop").mode("overwrite").save()


@carry_out.register
def _(value: unskew.StatefulStream, folder: Path) -> None:
    def read(batch: DataFrame, number: int) -> None:
        carry_out(batch, folder)

    checkpoint = str(folder / uuid4().hex)
    value.start(read, checkpoint=checkpoint, slots=2, trigger="availableNow").awaitTermination()
