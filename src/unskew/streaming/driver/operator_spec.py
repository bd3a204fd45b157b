"""One stateful operator of a query that has not started: its input, its key, its event time, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from unskew.core.hashing import HASH_NAME
from unskew.spark.keys import KeyColumns, named_key_columns
from unskew.streaming.operators.operator import Operator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TimeMode: TypeAlias = Literal["EventTime", "ProcessingTime", "None"]


@dataclass(frozen=True)
class OperatorSpec:
    """A stateful operator over the records of `input`; `records` are the columns that it reads.

    The input of a chained operator is an empty DataFrame with the columns of what the operator before it emits.
    """

    input: DataFrame
    keys: KeyColumns
    time: str | None
    watermark: str | None
    operator: Operator
    records: pa.Schema

    @property
    def time_mode(self) -> TimeMode:
        """Which time calls its slots when there are no records, in the words of `transformWithState`."""
        if self.watermark is not None:
            return "EventTime"
        return "None" if self.operator.expiry is None else "ProcessingTime"

    def key_hash_before(self, upstream: OperatorSpec) -> Column | None:
        """The hash of the key that a record had at the operator before, if that one emits its key unchanged."""
        try:
            keys = named_key_columns(self.input, upstream.keys.names)
        except ValueError:
            return None
        return keys.hash() if keys.type.equals(upstream.keys.type) else None

    def describe(self, buckets: int, operators: int) -> dict[str, Any]:
        """What the checkpoint keeps of it, as plain data with stable names."""
        layout = self.operator.layout
        return {
            "operators": operators,
            "key": [f"{f.name}: {f.type}" for f in layout.key],
            "state": [f"{f.name}: {f.type}" for f in layout.state],
            "hash": HASH_NAME,
            "buckets": buckets,
            "operator": self.operator.describe(),
        }
