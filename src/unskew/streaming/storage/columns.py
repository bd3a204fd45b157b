"""Arrow columns as single arrays and as numpy masks."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Index: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


MAX_BYTES = 1 << 30
"""Bytes of a column that certainly fit into one array: the offsets of Arrow's text and binary columns have 32 bits."""

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; a column of one chunk, the usual case, is not copied."""
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def take_rows(table: pa.Table, rows: Index) -> pa.Table:
    """These rows of the table, in this order, each column in one chunk unless its text outgrows 32-bit offsets."""
    return pa.table([_take(column, rows) for column in table.columns], schema=table.schema)


def _take(column: pa.ChunkedArray, rows: Index) -> pa.ChunkedArray:
    large = _LARGE.get(column.type)
    if large is None or (column.nbytes <= MAX_BYTES and len(rows) <= len(column)):
        return pa.chunked_array([one_array(column.take(pa.array(rows)))], column.type)
    values = one_array(column.cast(large))
    sizes = np.cumsum(pc.binary_length(values).fill_null(0).to_numpy()[rows])
    cuts = np.flatnonzero(np.diff(sizes // MAX_BYTES)) + 1
    chunks = [values.take(pa.array(part)).cast(column.type) for part in np.split(rows, cuts)]
    return pa.chunked_array(chunks, column.type)


def bounded_parts(table: pa.Table, most: int | None = None) -> list[pa.Table]:
    """The table cut into pieces of at most `most` bytes (default: a fourth of `MAX_BYTES`), or of one row."""
    most = MAX_BYTES // 4 if most is None else most
    if len(table) < 2 or table.nbytes <= most:
        return [table]
    middle = len(table) // 2
    return [*bounded_parts(table.slice(0, middle), most), *bounded_parts(table.slice(middle), most)]


def mask_of(flags: pa.Array | pa.ChunkedArray) -> Mask:
    """A boolean column without nulls as numpy."""
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask.astype(np.bool_, copy=False)


def valid(values: pa.Array) -> Mask:
    """Which values are not null."""
    return mask_of(values.is_valid()) if values.null_count else np.ones(len(values), np.bool_)
