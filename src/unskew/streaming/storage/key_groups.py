"""Which records and which state rows belong to one key: looked up by hash, confirmed by value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.core.hashing import Hashes
from unskew.streaming.storage.columns import Index, Mask, mask_of, valid

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def window_ids(hashes: Hashes, starts: NDArray[np.int64]) -> Hashes:
    """One 64-bit number per key hash and start of a window: the id of a state row that belongs to one window."""
    mix = (hashes.view(np.uint64) ^ (starts.view(np.uint64) * _GOLDEN)) * _MIX
    return (mix ^ (mix >> np.uint64(31))).view(np.int64)


def groups_of(ids: Hashes, keys: Sequence[pa.Array]) -> tuple[Index, Index]:
    """The group of each row, and the first row of each group, where a group is one key.

    Rows are grouped by `ids`, then compared by value with the first row of their group: two keys with
    one hash are two groups, unless `keys` is empty. Groups are numbered in the order in which they first occur.
    """
    groups, firsts = _numbered(ids)
    if not keys:
        return groups, firsts
    same = same_keys(keys, [column.take(pa.array(firsts[groups])) for column in keys])
    if same.all():
        return groups, firsts
    unresolved = np.flatnonzero(~same)
    while len(unresolved):  # one round per further key with the same hash
        codes, first_places = _numbered(groups[unresolved])
        new_firsts = unresolved[first_places]
        groups[unresolved] = len(firsts) + codes
        firsts = np.concatenate([firsts, new_firsts])
        rows, first_rows = pa.array(unresolved), pa.array(new_firsts[codes])
        same = same_keys([column.take(rows) for column in keys], [column.take(first_rows) for column in keys])
        same[first_places] = True  # even if a value of this type does not equal itself
        unresolved = unresolved[~same]
    order = np.argsort(firsts)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[groups], firsts[order]


def find_rows(run_ids: Hashes, run_keys: Sequence[pa.Array], ids: Hashes, keys: Sequence[pa.Array]) -> Index:
    """The row of each key in a run sorted by id, or -1."""
    candidates = np.searchsorted(run_ids, ids).astype(np.int64)
    rows = np.full(len(ids), -1, np.int64)
    unresolved = np.arange(len(ids))
    while True:  # one round, unless two keys have the same id
        unresolved = unresolved[candidates[unresolved] < len(run_ids)]
        unresolved = unresolved[run_ids[candidates[unresolved]] == ids[unresolved]]
        if not len(unresolved):
            return rows
        run_places, places = pa.array(candidates[unresolved]), pa.array(unresolved)
        same = same_keys([c.take(run_places) for c in run_keys], [c.take(places) for c in keys])
        rows[unresolved[same]] = candidates[unresolved[same]]
        unresolved = unresolved[~same]
        candidates[unresolved] += 1


def same_keys(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Mask:
    """Whether the two keys of each row are equal, as Spark groups: null equals null, NaN equals NaN."""
    same = np.ones(len(left[0]), np.bool_)
    for left_column, right_column in zip(left, right, strict=True):
        same &= _same_values(left_column, right_column)
    return same


def _same_values(left: pa.Array, right: pa.Array) -> Mask:
    if pa.types.is_struct(left.type):
        same_validity: Mask = valid(left) == valid(right)
        if not left.type.num_fields:
            return same_validity
        return same_validity & same_keys(left.flatten(), right.flatten())
    if pa.types.is_nested(left.type):
        return np.array([a == b for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)], np.bool_)
    if pa.types.is_floating(left.type):
        width = pa.int64() if left.type == pa.float64() else pa.int32()
        left, right = (c.view(width) if c.type != pa.float16() else c for c in (left, right))
    if pa.types.is_null(left.type):
        return np.ones(len(left), np.bool_)
    equal = pc.equal(left, right)
    if equal.null_count == 0:
        return mask_of(equal)
    return mask_of(equal.fill_null(False)) | ~(valid(left) | valid(right))


def _numbered(ids: Hashes) -> tuple[Index, Index]:
    """The ids numbered in the order in which they first occur, and the row of each first occurrence."""
    codes, uniques = pd.factorize(ids)
    numbers = codes.astype(np.int64, copy=False)
    firsts = np.empty(len(uniques), np.int64)
    firsts[numbers[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return numbers, firsts
