"""Aggregates whose state is a sketch of bounded size: distinct values and the most frequent values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.hashing import hash_keys
from unskew.core.sketches.batch import numbered
from unskew.streaming.operators.aggregation import Aggregate, checked_type, ordered_type
from unskew.streaming.operators.group_columns import canonical_nan, lists, ordinals, places
from unskew.streaming.storage.columns import Index, valid

if TYPE_CHECKING:
    from pyspark.sql import Column

CANDIDATES = 8
"""Counters that `top_k` keeps per value it returns: a count is then off by at most an eighth of n/k,
and the k values returned cannot all have counts above n/k."""


def _check_k(k: Any, least: int) -> None:
    if not isinstance(k, int) or isinstance(k, bool) or k < least:
        raise ValueError(f"k is a whole number of at least {least}, not {k!r}")


@dataclass(frozen=True)
class ApproxDistinct(Aggregate):
    """About how many distinct values a column has, not counting null.

    Exact up to `k` distinct values (except where 64-bit hashes collide); beyond that the relative error
    is about 1/√k (one standard deviation; 6 % at k=256). The result does not depend on the order of records or
    of merging.

    How: the k + 1 smallest hashes are kept; how close together they lie shows how many there are in
    all. Bar-Yossef et al., "Counting distinct elements in a data stream", RANDOM 2002; the estimate
    without bias is that of Beyer et al., SIGMOD 2007.

    State: 8 bytes per distinct value, at most 8(k + 1) per key. `k` is at least 2.
    """

    k: int = 256
    name: ClassVar[str] = "approx_distinct"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_k(self.k, 2)

    def state(self, schema: pa.Schema) -> list[pa.Field]:
        self._type(schema)
        return [pa.field("hashes", pa.list_(pa.int64()))]

    def result(self, schema: pa.Schema) -> pa.DataType:
        self._type(schema)
        return pa.int64()

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        values = self.values(rows, self._type(rows.schema))
        present = valid(values)
        return [lists(pa.array(hash_keys(values)[present]), present.astype(np.int64))]

    def merge(self, states: Sequence[pa.Array], ids: Index, groups: int) -> list[pa.Array]:
        members, entries = _entries(states[0], ids)
        hashes = entries.to_numpy()
        order = np.lexsort((hashes, members))
        members, hashes = members[order], hashes[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (members[1:] != members[:-1]) | (hashes[1:] != hashes[:-1])
        members, hashes = members[new], hashes[new]
        smallest = places(members, groups) <= self.k
        return [lists(pa.array(hashes[smallest]), np.bincount(members[smallest], minlength=groups))]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        sizes = _sizes(states[0])
        full = sizes > self.k
        estimates = sizes.copy()
        largest = states[0].flatten().to_numpy()[np.cumsum(sizes)[full] - 1]
        # the share of all hashes, -2^63 to 2^63 - 1, below the largest one that is kept
        share = (largest.astype(np.float64) + 2.0**63 + 1.0) / 2.0**64
        estimates[full] = np.rint(self.k / share)
        return pa.array(estimates)

    def _type(self, schema: pa.Schema) -> pa.DataType:
        assert self.column is not None
        remedy = (
            "cast the column to a number, string, binary, date, timestamp or boolean, or a struct of these"
        )
        return checked_type(schema, self.column, self.name, lambda t: t != pa.null(), remedy)

    def batch_column(self) -> Column:
        """Spark's own sketch with the same relative error."""
        from pyspark.sql import functions as F

        from unskew.spark.keys import column

        return F.approx_count_distinct(column(str(self.column)), self.k**-0.5)


@dataclass(frozen=True)
class TopK(Aggregate):
    """The k most frequent values of a column, as a list of (value, count), the most frequent first.

    Exact while a key has at most 8k distinct values. Beyond that, with n values in all (nulls do not
    count), a count is never too high and too low by at most n/(8k + 1); and a value is certain to be returned
    if its true count exceeds that of the true (k + 1)-st by more than that. Which other values are returned, and
    the counts within these bounds, then depend on how the records were split. Values with equal counts
    come in ascending order.

    How: 8k counters per key. When a merge leaves more, the (8k + 1)-st largest count is subtracted from all of
    them, and those above zero stay. Misra and Gries, 1982; Agarwal et al., "Mergeable summaries", PODS 2012, show
    that merging this way keeps the bound.

    State: at most 8k values and counts per key.
    """

    k: int = 10
    name: ClassVar[str] = "top_k"
    in_batch: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_k(self.k, 1)

    def state(self, schema: pa.Schema) -> list[pa.Field]:
        return [pa.field("counts", self.result(schema))]

    def result(self, schema: pa.Schema) -> pa.DataType:
        return pa.list_(pa.struct(_pair(self._type(schema))))

    def unit(self, rows: pa.Table) -> list[pa.Array]:
        values = self.values(rows, self._type(rows.schema))
        present = valid(values)
        values = values.drop_null()
        if pa.types.is_floating(values.type):  # values are distinguished as Spark's grouping does
            values = pa.array(canonical_nan(values.to_numpy()) + values.type.to_pandas_dtype()(0.0))
        return [_counted(values, np.ones(len(values), np.int64), present.astype(np.int64))]

    def merge(self, states: Sequence[pa.Array], ids: Index, groups: int) -> list[pa.Array]:
        members, entries = _entries(states[0], ids)
        values, added = entries.flatten()
        encoded = values.dictionary_encode()
        width = len(encoded.dictionary) or 1
        pairs, codes = numbered(np.zeros(0, np.int64), members * width + encoded.indices.to_numpy())
        counts = np.zeros(len(pairs), np.int64)
        np.add.at(counts, codes, added.to_numpy())

        members, value_codes = np.divmod(pairs, width)
        order = np.lexsort((ordinals(encoded.dictionary)[value_codes], -counts, members))
        members, value_codes, counts = members[order], value_codes[order], counts[order]
        first_excess = places(members, groups) == CANDIDATES * self.k
        deduction = np.zeros(groups, np.int64)
        deduction[members[first_excess]] = counts[first_excess]
        counts -= deduction[members]
        positive = counts > 0
        values = encoded.dictionary.take(pa.array(value_codes[positive]))
        return [_counted(values, counts[positive], np.bincount(members[positive], minlength=groups))]

    def final(self, states: Sequence[pa.Array]) -> pa.Array:
        members, entries = _entries(states[0], np.arange(len(states[0])))
        largest = places(members, len(states[0])) < self.k
        values, counts = entries.filter(pa.array(largest)).flatten()
        return _counted(values, counts.to_numpy(), np.bincount(members[largest], minlength=len(states[0])))

    def _type(self, schema: pa.Schema) -> pa.DataType:
        assert self.column is not None
        return ordered_type(schema, self.column, self.name)


def _pair(t: pa.DataType) -> list[pa.Field]:
    return [pa.field("value", t), pa.field("count", pa.int64())]


def _counted(values: pa.Array, counts: Index, sizes: Index) -> pa.ListArray:
    return lists(pa.StructArray.from_arrays([values, pa.array(counts)], fields=_pair(values.type)), sizes)


def _sizes(states: pa.ListArray) -> NDArray[np.int64]:
    return states.value_lengths().to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _entries(states: pa.ListArray, ids: Index) -> tuple[Index, pa.Array]:
    """All entries of the lists, and the group of each."""
    return np.repeat(ids, _sizes(states)), states.flatten()
