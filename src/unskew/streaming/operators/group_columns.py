"""Arrow columns merged by group: sums, extremes, and the row of each group that comes first or last.

Everywhere `ids[i]` is the group (0..groups-1) of row i, and the result has one row per group. Columns
of fixed width are merged by numpy, which needs no hash table since the groups are numbered already: for 200k rows
in 50k groups this takes 0.3 ms per column, where Arrow's `group_by` takes 6 ms. Strings, binaries and decimals
share one `group_by`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.streaming.storage.columns import Index, Mask, one_array, valid

Kernel: TypeAlias = Literal["sum", "min", "max"]


class Part(NamedTuple):
    """A column to merge by a kernel; `source` is the user's column, for the message when a sum overflows."""

    kernel: Kernel
    values: pa.Array
    source: str


def merge_parts(parts: Sequence[Part], ids: Index, groups: int) -> list[pa.Array]:
    """Each part merged by group; null where a group has only nulls.

    A sum of integers or decimals that does not fit its type raises an ArithmeticError; it never wraps around.
    """
    by_arrow = iter(_merge_in_arrow([p for p in parts if not _fixed_width(p.values.type)], ids, groups))
    merged = []
    for part in parts:
        if not _fixed_width(part.values.type):
            merged.append(next(by_arrow))
        elif part.kernel == "sum":
            merged.append(_sums(part, ids, groups))
        else:
            merged.append(_extremes(part, ids, groups))
    return merged


def winners(by: pa.Array, values: pa.Array, ids: Index, groups: int, *, last: bool) -> pa.Array:
    """The row of each group with the smallest `by`, or with `last` the largest; null where all are null.

    Of rows with equal `by` the one with the smallest (largest) value wins, and any value wins over null, so
    the result depends only on the set of rows, not on their order.
    """
    rows = np.flatnonzero(valid(by))
    rows = rows[_attaining(ordinals(_take(by, rows)), ids[rows], groups, last=last)]
    winner = np.full(groups, -1, np.int64)
    winner[ids[rows]] = rows
    tied = rows[np.bincount(ids[rows], minlength=groups)[ids[rows]] > 1]
    tied = tied[valid(_take(values, tied))]
    if len(tied):  # ranking text is the only costly step, and ties are rare
        best = tied[_attaining(ordinals(_take(values, tied)), ids[tied], groups, last=last)]
        winner[ids[best]] = best
    return pa.array(winner, mask=winner < 0)


def ordinals(values: pa.Array) -> NDArray[Any]:
    """Integers that compare as the values do, which must not be null: NaN above all floats, as in Spark.

    Those of fixed-width types mean the same in every call; those of others are ranks within `values`.
    """
    t = values.type
    if pa.types.is_boolean(t):
        return values.to_numpy(zero_copy_only=False).view(np.uint8)  # type: ignore[no-any-return]
    if pa.types.is_floating(t):
        return _flipped(canonical_nan(values.to_numpy()).view(f"i{t.bit_width // 8}"))
    if pa.types.is_date32(t):
        return values.view(pa.int32()).to_numpy()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(t):
        return values.view(pa.int64()).to_numpy()  # type: ignore[no-any-return]
    if pa.types.is_integer(t):
        return values.to_numpy()  # type: ignore[no-any-return]
    encoded = values.dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    return rank[encoded.indices.to_numpy()]  # type: ignore[no-any-return]


def canonical_nan(numbers: NDArray[Any]) -> NDArray[Any]:
    """The numbers with the same bits for every NaN: their bits may differ, and some carry a sign."""
    nan = np.isnan(numbers)
    return np.where(nan, numbers.dtype.type(np.nan), numbers) if nan.any() else numbers


def places(sorted_ids: Index, groups: int) -> Index:
    """The position of each row within its group, for rows that are sorted by group."""
    sizes = np.bincount(sorted_ids, minlength=groups)
    return np.arange(len(sorted_ids)) - (np.cumsum(sizes) - sizes)[sorted_ids]


def lists(values: pa.Array, sizes: Index) -> pa.ListArray:
    """A list column that holds the values in order, in lists of these sizes."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _fixed_width(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(t)
        or pa.types.is_floating(t)
        or pa.types.is_boolean(t)
        or pa.types.is_date32(t)
        or pa.types.is_timestamp(t)
    )


def _present(values: pa.Array, ids: Index) -> tuple[pa.Array, Index]:
    return (values.drop_null(), ids[valid(values)]) if values.null_count else (values, ids)


def _take(values: pa.Array, rows: Index) -> pa.Array:
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def _flipped(bits: NDArray[Any]) -> NDArray[Any]:
    """The bits of floats as integers in the order of the floats; applied twice, it returns the original bits."""
    negative = bits >> np.iinfo(bits.dtype).bits - 1  # all ones, or none
    return bits ^ (negative & np.iinfo(bits.dtype).max)  # type: ignore[no-any-return]


def _best(order: NDArray[Any], ids: Index, groups: int, *, last: bool) -> NDArray[Any]:
    limits = np.iinfo(order.dtype)
    best = np.full(groups, limits.min if last else limits.max, order.dtype)
    (np.maximum if last else np.minimum).at(best, ids, order)
    return best


def _attaining(order: NDArray[Any], ids: Index, groups: int, *, last: bool) -> Mask:
    return order == _best(order, ids, groups, last=last)[ids]  # type: ignore[no-any-return]


def _extremes(part: Part, ids: Index, groups: int) -> pa.Array:
    values, ids = _present(part.values, ids)
    best = _best(ordinals(values), ids, groups, last=part.kernel == "max")
    t = values.type
    if pa.types.is_floating(t):
        best = _flipped(best).view(f"f{t.bit_width // 8}")
    elif pa.types.is_boolean(t):
        best = best.astype(np.bool_)
    return _column(best, ids, t)


def _sums(part: Part, ids: Index, groups: int) -> pa.Array:
    values, ids = _present(part.values, ids)
    numbers = values.to_numpy()
    if pa.types.is_floating(values.type):
        # bincount returns int64 when there is nothing to add
        return _column(np.bincount(ids, numbers, groups).astype(np.float64, copy=False), ids, values.type)
    totals = np.zeros(groups, np.int64)
    np.add.at(totals, ids, numbers)
    if len(numbers) and len(numbers) * max(abs(int(numbers.min())), abs(int(numbers.max()))) >= 1 << 63:
        # A sum that wrapped is off by a multiple of 2^64; the sum in floats is off by far less.
        near = np.bincount(ids, numbers, groups)
        _refuse_overflow(bool((np.abs(near - totals) > 2.0**63).any()), part.source, values.type)
    return _column(totals, ids, values.type)


def _column(numbers: NDArray[Any], ids: Index, t: pa.DataType) -> pa.Array:
    missing = np.ones(len(numbers), np.bool_)
    missing[ids] = False
    column = pa.array(numbers, mask=missing if missing.any() else None)
    return column if column.type == t else column.view(t)


def _merge_in_arrow(parts: Sequence[Part], ids: Index, groups: int) -> list[pa.Array]:
    if not parts or not len(ids):
        return [pa.nulls(groups, part.values.type) for part in parts]
    names = [f"c{i}" for i in range(len(parts))]
    table = pa.table([pa.array(ids), *(part.values for part in parts)], names=["id", *names])
    kernels = [(name, part.kernel) for name, part in zip(names, parts, strict=True)]
    merged = table.group_by("id", use_threads=False).aggregate(kernels)
    rows = np.full(groups, -1, np.int64)  # Arrow returns the groups in the order in which they first occur
    rows[merged["id"].to_numpy()] = np.arange(merged.num_rows)
    order = pa.array(rows, mask=rows < 0)
    columns = [one_array(merged[f"{name}_{kernel}"]).take(order) for name, kernel in kernels]
    for part, column in zip(parts, columns, strict=True):
        if part.kernel == "sum":
            _check_decimals(part, column, ids, groups)
    return columns


def _check_decimals(part: Part, totals: pa.Array, ids: Index, groups: int) -> None:
    limit = 10**totals.type.precision - 1  # in units of the last digit, like everything below
    extent = pc.min_max(part.values)
    ends = [_units(extent[end].as_py(), totals.type.scale) for end in ("min", "max")]
    if len(ids) * max(map(abs, ends)) <= limit:
        return
    # 128 bits hold a little more than 38 digits, and wrap around beyond that, by 2^128
    values, ids = _present(part.values, ids)
    unit = 10.0**totals.type.scale
    near = np.bincount(ids, values.cast(pa.float64()).to_numpy() * unit, groups)
    exact = totals.cast(pa.float64()).fill_null(0.0).to_numpy() * unit
    extent = pc.min_max(totals)
    beyond = any(abs(_units(extent[end].as_py(), totals.type.scale)) > limit for end in ("min", "max"))
    _refuse_overflow(beyond or bool((np.abs(near - exact) > 2.0**127).any()), part.source, totals.type)


def _units(value: Decimal | None, scale: int) -> int:
    if value is None:
        return 0
    sign, digits, exponent = value.as_tuple()
    magnitude: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return -magnitude if sign else magnitude


def _refuse_overflow(overflow: bool, source: str, t: pa.DataType) -> None:
    if overflow:
        remedy = "double" if pa.types.is_integer(t) else "double or to a smaller scale"
        raise ArithmeticError(f"the sum of column {source!r} does not fit {t}: cast the column to {remedy}")
