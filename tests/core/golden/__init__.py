"""Keys of every type with the `xxhash64` that a real Spark gave them.

`xxhash64.json` holds the keys as text, which Spark casts to each type itself, so that no conversion of ours
stands between the key and its hash. `tests/spark/test_hashing_parity.py` checks the file against Spark; rewrite
it with `python -m tests.spark.golden`.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

FILE = Path(__file__).with_name("xxhash64.json")

_TYPES: dict[str, pa.DataType] = {
    "void": pa.null(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def columns() -> list[dict[str, Any]]:
    """The columns of the file: the Spark types of a key, its values as text and their hashes."""
    return json.loads(FILE.read_text())["columns"]  # type: ignore[no-any-return]


def keys_of(column: dict[str, Any]) -> pa.Array:
    """The keys of a column of the file, a composite key as a struct."""
    arrays = [
        pa.array([_parse(row[i], spark_type) for row in column["values"]], _arrow_type(spark_type))
        for i, spark_type in enumerate(column["types"])
    ]
    names = list("xyz"[: len(arrays)])
    return arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, names=names)


def _arrow_type(spark_type: str) -> pa.DataType:
    if spark_type.startswith("decimal"):
        precision, scale = spark_type.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES[spark_type]


def _parse(text: str | None, spark_type: str) -> Any:
    if text is None or spark_type == "string":
        return text
    if spark_type == "binary":
        return bytes.fromhex(text)
    if spark_type == "boolean":
        return text == "true"
    if spark_type in ("float", "double"):
        return float(text)
    if spark_type.startswith("decimal"):
        return Decimal(text)
    if spark_type == "date":
        return dt.date.fromisoformat(text)
    if spark_type == "timestamp":
        return dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)
    if spark_type == "timestamp_ntz":
        return dt.datetime.fromisoformat(text)
    return int(text)
