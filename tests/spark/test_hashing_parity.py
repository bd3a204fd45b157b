"""Our hash against a running Spark: the golden file, and random keys of every type."""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from tests.core.golden import FILE
from tests.spark.golden import computed, dumped
from unskew.core.hashing import buckets_of, hash_keys


def test_the_golden_file_is_what_spark_computes(spark: SparkSession) -> None:
    fresh = json.loads(dumped(computed(spark)))
    assert fresh["columns"] == json.loads(FILE.read_text())["columns"]


def random_columns(rows: int = 2000) -> dict[str, pa.Array]:
    numbers, words = np.random.default_rng(1), random.Random(1)
    text = ["".join(words.choices("abcdefgäß日🙂", k=words.randrange(80))) for _ in range(rows)]
    bits = numbers.integers(-(2**63), 2**63 - 1, rows)
    bits[:20] = np.arange(20) + (0x7FF0 << 48)  # infinity and 19 different NaN
    nulls = pa.array(numbers.random(rows) < 0.1)
    columns = {
        "string": pa.array(text),
        "binary": pa.array([word.encode() for word in text]),
        "boolean": pa.array(bits > 0),
        "byte": pa.array(bits.astype(np.int8)),
        "short": pa.array(bits.astype(np.int16)),
        "int": pa.array(bits.astype(np.int32)),
        "long": pa.array(bits),
        "double": pa.array(bits.view(np.float64)),
        "float": pa.array(numbers.normal(size=rows).astype(np.float32)),
        "decimal_small": pa.array(bits % 10**9).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
        "decimal_large": pa.array(bits).cast(pa.decimal128(38, 0)),
        "date": pa.array((bits % 100_000).astype(np.int32)).cast(pa.date32()),
        "timestamp": pa.array(bits // 1000).cast(pa.timestamp("us", "UTC")),
        "timestamp_ntz": pa.array(bits // 1000).cast(pa.timestamp("us")),
    }
    return {name: pa.compute.if_else(nulls, None, column) for name, column in columns.items()}


def test_random_keys_of_every_type_and_composites(spark: SparkSession) -> None:
    columns = random_columns()
    table = pa.table({"row": np.arange(len(columns["long"])), **columns})
    composite = ["string", "long", "decimal_large", "date"]
    hashed = (
        spark.createDataFrame(table)
        .select(
            "row",
            *(sf.xxhash64(name).alias(name) for name in columns),
            sf.xxhash64(*composite).alias("composite"),
            sf.xxhash64(sf.struct(*composite)).alias("struct"),
            sf.pmod(sf.xxhash64("string"), sf.lit(4096)).alias("bucket"),
            sf.pmod(sf.xxhash64("string"), sf.lit(100)).alias("bucket_100"),
        )
        .orderBy("row")
        .toArrow()
    )
    for name, column in columns.items():
        assert hash_keys(column).tolist() == hashed[name].to_pylist(), name
    keys = pa.StructArray.from_arrays([columns[name] for name in composite], names=composite)
    assert hash_keys(keys).tolist() == hashed["composite"].to_pylist() == hashed["struct"].to_pylist()
    for buckets, name in ((4096, "bucket"), (100, "bucket_100")):
        assert buckets_of(hash_keys(columns["string"]), buckets).tolist() == hashed[name].to_pylist()
