"""Arrow columns as single arrays and as numpy masks."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Index: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; a column of one chunk, the usual case, is not copied."""
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def mask_of(flags: pa.Array | pa.ChunkedArray) -> Mask:
    """A boolean column without nulls as numpy."""
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask.astype(np.bool_, copy=False)


def valid(values: pa.Array) -> Mask:
    """Which values are not null."""
    return mask_of(values.is_valid()) if values.null_count else np.ones(len(values), np.bool_)
