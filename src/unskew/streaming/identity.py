"""Which records and which state rows belong to one key: found by hash, settled by value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.core.hashing import Hashes

Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def mixed(hashes: Hashes, moments: NDArray[np.int64]) -> Hashes:
    """One 64-bit number for a key's hash and a moment: the identity of a state row that is kept by window."""
    mix = (hashes.view(np.uint64) ^ (moments.view(np.uint64) * _GOLDEN)) * _MIX
    return (mix ^ (mix >> np.uint64(31))).view(np.int64)


def groups_of(ids: Hashes, keys: Sequence[pa.Array]) -> tuple[Index, Index]:
    """The group of each row, and the first row of each group, where a group is one key.

    Rows are grouped by `ids`, then compared by value with the first row of their group: two keys with
    one hash are two groups.
    """
    codes, uniques = pd.factorize(ids)
    groups = codes.astype(np.int64)
    firsts = np.empty(len(uniques), np.int64)
    firsts[groups[::-1]] = np.arange(len(ids) - 1, -1, -1)
    same = same_keys(keys, [column.take(pa.array(firsts[groups])) for column in keys])
    if same.all():
        return groups, firsts
    return _settled(groups, firsts, keys, np.flatnonzero(np.isin(groups, groups[~same])))


def find(run_ids: Hashes, run_keys: Sequence[pa.Array], ids: Hashes, keys: Sequence[pa.Array]) -> Index:
    """Where each key stands among rows sorted by id, or -1."""
    at = np.searchsorted(run_ids, ids).astype(np.int64)
    found = np.full(len(ids), -1, np.int64)
    left = np.arange(len(ids))
    while True:  # one round, unless two keys have the same id
        left = left[at[left] < len(run_ids)]
        left = left[run_ids[at[left]] == ids[left]]
        if not len(left):
            return found
        here, asked = pa.array(at[left]), pa.array(left)
        same = same_keys([c.take(here) for c in run_keys], [c.take(asked) for c in keys])
        found[left[same]] = at[left[same]]
        left = left[~same]
        at[left] += 1


def same_keys(ones: Sequence[pa.Array], others: Sequence[pa.Array]) -> Mask:
    """Whether the two keys of each row are equal, as Spark groups: null equals null, NaN equals NaN."""
    same = np.ones(len(ones[0]), np.bool_)
    for one, other in zip(ones, others, strict=True):
        same &= _same(one, other)
    return same


def _same(one: pa.Array, other: pa.Array) -> Mask:
    if pa.types.is_struct(one.type):
        valid = _valid(one) == _valid(other)
        parts = same_keys(one.flatten(), other.flatten()) if one.type.num_fields else valid
        return valid & parts
    if pa.types.is_nested(one.type):
        return np.array([a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], np.bool_)
    if pa.types.is_floating(one.type):
        width = pa.int64() if one.type == pa.float64() else pa.int32()
        one, other = (c.view(width) if c.type != pa.float16() else c for c in (one, other))
    if pa.types.is_null(one.type):
        return np.ones(len(one), np.bool_)
    equal = pc.equal(one, other)
    if equal.null_count == 0:
        return _flags(equal)
    return _flags(equal.fill_null(False)) | ~(_valid(one) | _valid(other))


def _valid(array: pa.Array) -> Mask:
    return _flags(array.is_valid())


def _flags(array: Any) -> Mask:
    flags: Mask = array.to_numpy(zero_copy_only=False)
    return flags.astype(np.bool_, copy=False)


def _settled(groups: Index, firsts: Index, keys: Sequence[pa.Array], rows: Index) -> tuple[Index, Index]:
    """Groups of `rows` anew, by value: for the few rows whose hash several keys share."""
    groups = groups.copy()
    known: dict[str, int] = {}
    more = list(firsts)
    picked = [column.take(pa.array(rows)).to_pylist() for column in keys]
    for row, values in zip(rows.tolist(), zip(*picked, strict=True), strict=True):
        name = repr((int(groups[row]), values))
        if name not in known:
            taken = int(groups[row]) in known.values()
            known[name] = len(more) if taken else int(groups[row])
            if taken:
                more.append(row)
        groups[row] = known[name]
    return groups, np.array(more, np.int64)
