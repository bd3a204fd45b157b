"""Slot labels land where Spark's hash partitioning puts them."""

from __future__ import annotations

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from unskew.streaming.worker.slot_labels import slot_labels, spark_hash


def test_labels_hash_in_spark_to_their_slot(spark: SparkSession) -> None:
    for partitions in (1, 3, 16):
        labels = slot_labels(partitions)
        rows = spark.createDataFrame([(label,) for label in labels], "label int")
        hashed = rows.select("label", F.hash("label").alias("hash")).collect()
        assert {r["label"]: r["hash"] for r in hashed} == {
            label: int(h) for label, h in zip(labels, spark_hash(np.array(labels)), strict=True)
        }
        assert {r["label"]: r["hash"] % partitions for r in hashed} == {n: i for i, n in enumerate(labels)}
