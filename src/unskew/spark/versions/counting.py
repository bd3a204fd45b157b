"""Heavy keys and bucket counts gathered by aggregates in one pass, on every version of Spark.

Since 4.1 these are sketches of Spark's own (`approx_top_k`). Before, a bounded sample of the rows is collected: every
partition is thinned as it goes, as in `unskew.spark.sampling`, and the figures are estimated from it. Of a few thousand
rows all are taken, and the figures are then exact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from unskew.core.hashing import buckets_of
from unskew.spark.keys import lots, quoted
from unskew.spark.versions.running import version_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_BUDGET = 10_000
_LEAST_QUOTA = 16


def draws_sample(spark: SparkSession) -> bool:
    """Whether the figures are made from a sample: before 4.1."""
    return not version_of(spark).has_top_k


def drawn(key_hash: Column, item: Column) -> Column:
    """A column that is null but for the rows of the sample: hash, item, and how many rows the row stands for."""
    number = F.monotonically_increasing_id()
    row = number.bitwiseAND((1 << 33) - 1) + 1
    quota = F.greatest(F.lit(float(_LEAST_QUOTA)), F.lit(float(_BUDGET)) / (F.shiftright(number, 33) + 1))
    sampled = F.struct(
        key_hash.alias("hash"),
        item.cast("string").alias("item"),
        F.greatest(F.lit(1.0), row / quota).alias("stands_for"),
    )
    return F.when((row <= quota) | (lots() * row < quota), sampled)


def sample_aggregates(sample: str, key_hash: str) -> dict[str, str]:
    """The aggregates, as SQL, over the columns of these names."""
    return {
        # as text: in 3.5 only numbers and texts can be observed
        "sample": f"to_json(collect_list({quoted(sample)}))",
        "rows": f"count({quoted(key_hash)})",
        "distinct": f"approx_count_distinct({quoted(key_hash)})",
    }


def in_sketched_form(
    figures: Mapping[str, Any], buckets: int, heavy: int, item_type: pa.DataType
) -> dict[str, Any]:
    """Figures of a sample in the form of those that sketches give; all others are returned as they are."""
    if "sample" not in figures:
        return dict(figures)
    rows = json.loads(figures["sample"] or "[]")
    hashes, first, group = np.unique(
        np.array([row["hash"] for row in rows], np.int64), return_index=True, return_inverse=True
    )
    stands_for = np.array([row["stands_for"] for row in rows], np.float64)
    counts = np.bincount(group.reshape(-1), stands_for, len(hashes)).astype(np.float64)
    counts *= figures["rows"] / max(counts.sum(), 1.0)
    heaviest = np.argsort(-counts, kind="stable")[:heavy]
    whole = np.bincount(buckets_of(hashes, buckets), counts, buckets)
    texts = pa.array([rows[i].get("item") for i in first[heaviest].tolist()], pa.string())
    items = texts.cast(item_type).to_pylist()
    return {
        "heavy": [
            {"item": item, "count": count}
            for item, count in zip(items, counts[heaviest].tolist(), strict=True)
        ],
        "buckets": [{"item": i, "count": whole[i]} for i in np.flatnonzero(whole).tolist()],
        "distinct": figures["distinct"],
    }
