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
    one hash are two groups, unless no `keys` are given. Groups are numbered in the order in which they first occur.
    """
    groups, firsts = _numbered(ids)
    if not keys:
        return groups, firsts
    same = same_keys(keys, [column.take(pa.array(firsts[groups])) for column in keys])
    if same.all():
        return groups, firsts
    left = np.flatnonzero(~same)
    while len(left):  # a round for each further key with the same hash
        codes, places = _numbered(groups[left])
        first = left[places]
        groups[left] = len(firsts) + codes
        firsts = np.concatenate([firsts, first])
        others = pa.array(first[codes])
        same = same_keys([c.take(pa.array(left)) for c in keys], [c.take(others) for c in keys])
        same[places] = True  # whatever its type makes of comparing a value with itself
        left = left[~same]
    order = np.argsort(firsts)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[groups], firsts[order]


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
        valid: Mask = _valid(one) == _valid(other)
        return valid & same_keys(one.flatten(), other.flatten()) if one.type.num_fields else valid
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


def _numbered(ids: Hashes) -> tuple[Index, Index]:
    """The number of each id, in the order in which they first occur, and where that is."""
    codes, uniques = pd.factorize(ids)
    numbers = codes.astype(np.int64, copy=False)
    firsts = np.empty(len(uniques), np.int64)
    firsts[numbers[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return numbers, firsts
