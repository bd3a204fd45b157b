"""How often a key of one operator and a key of the next meet in a record: frequent pairs, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core import files
from unskew.core.hashing import HASH_NAME, Hashes, Keys, as_keys, hash_keys, key_iter
from unskew.core.histogram import Floats
from unskew.core.sketches.batch import first_rows, numbered
from unskew.core.sketches.space_saving import largest
from unskew.core.sketches.tracked import Tracked

DEFAULT_PAIRS = 1_000_000
"""Pairs counted individually: the paper found 10⁶ enough for 173 million records. About 40 MB and the keys."""

_KIND, _FORMAT = "pair histogram", 1

# 2⁶⁴ over the golden ratio: multiplying by it spreads low bits over the high ones.
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class PairHistogram:
    """The most frequent (key of A, key of B) pairs of a window, in at most `capacity` counters.

    Guarantee, with N = `total` records, c = `capacity` and f the true number of records of a pair: a counted
    pair has `counts` ≤ f ≤ `counts` + `errors` ≤ f + N/c, and every pair with f > N/c is counted. It is Space
    Saving over pairs, with its merge. The records of one call are summed exactly first, so every count is exact
    and every error 0 as long as there were no more than c different pairs in all. `counts` is the number of records
    that certainly had the pair. `locality` uses it for edge weights, so that counters taken over from other pairs do
    not pass for correlations.

    A pair is identified by the two 64-bit hashes of its keys (see `hashing`); the keys themselves, of any type, are
    there for tables and people. Pairs are listed heaviest first. To count on, merge the next batch in; after
    a reconfiguration start over (`reset`) as the paper does, or let the past fade (`decayed`).

    Cost: one hash table over the pairs. Caneill et al., "Locality-aware routing in stateful streaming
    applications", section 3.2; the sketch is that of Metwally et al., ICDT 2005.

    >>> pairs = PairHistogram.from_pairs(["Asia", "Asia", "Oceania"], ["#java", "#java", "#python"])
    >>> pairs
    PairHistogram(3 records, 2 pairs counted in 100.0% of them, capacity 1000000)
    >>> pairs.top(), pairs.total
    ([('Asia', '#java', 2.0), ('Oceania', '#python', 1.0)], 3.0)
    >>> pairs.merge(pairs).trimmed(1).top()
    [('Asia', '#java', 4.0)]
    """

    keys_a: pa.Array
    keys_b: pa.Array
    hashes_a: Hashes
    hashes_b: Hashes
    counts: Floats
    errors: Floats
    total: float
    capacity: int = DEFAULT_PAIRS

    @classmethod
    def empty(
        cls,
        key_type_a: pa.DataType | None = None,
        key_type_b: pa.DataType | None = None,
        *,
        capacity: int = DEFAULT_PAIRS,
    ) -> PairHistogram:
        """No pairs at all."""
        a, b = (pa.array([], type=t or pa.string()) for t in (key_type_a, key_type_b))
        return cls.from_arrays(a, b, [], capacity=capacity)

    @classmethod
    def from_pairs(
        cls,
        keys_a: Keys,
        keys_b: Keys,
        *,
        capacity: int = DEFAULT_PAIRS,
        key_type_a: pa.DataType | None = None,
        key_type_b: pa.DataType | None = None,
    ) -> PairHistogram:
        """From one row per record: its key at the first operator and its key at the second."""
        a, b = as_keys(keys_a, key_type_a), as_keys(keys_b, key_type_b)
        return cls.from_arrays(a, b, np.ones(len(a)), capacity=capacity)

    @classmethod
    def from_arrays(
        cls,
        keys_a: Keys,
        keys_b: Keys,
        counts: ArrayLike,
        *,
        hashes: tuple[Hashes, Hashes] | None = None,
        capacity: int = DEFAULT_PAIRS,
        key_type_a: pa.DataType | None = None,
        key_type_b: pa.DataType | None = None,
    ) -> PairHistogram:
        """From pairs and how many records have them; a pair that occurs several times is summed.

        `hashes` are those of both columns of keys, if Spark's `xxhash64` computed them already.
        """
        _check_capacity(capacity)
        a, b = as_keys(keys_a, key_type_a), as_keys(keys_b, key_type_b)
        figures = _checked(counts)
        lengths = {len(a), len(b), len(figures)}
        hashes_a, hashes_b = (hash_keys(a), hash_keys(b)) if hashes is None else hashes
        if len(lengths | {len(hashes_a), len(hashes_b)}) > 1:
            raise ValueError(
                f"{len(a)} keys of the first operator, {len(b)} of the second and {len(figures)} counts: "
                "pass one of each per pair"
            )
        names, codes = numbered(np.zeros(0, np.int64), _pair_hashes(hashes_a, hashes_b))
        summed = np.bincount(codes, figures, len(names)).astype(np.float64, copy=False)
        # pairs without records say nothing
        counted = np.flatnonzero(summed)
        counted = counted[largest(summed[counted], names[counted], capacity)]
        rows = first_rows(codes)[counted]
        return cls(
            a.take(pa.array(rows)),
            b.take(pa.array(rows)),
            hashes_a[rows],
            hashes_b[rows],
            summed[counted],
            np.zeros(len(counted)),
            float(figures.sum()),
            capacity,
        )._heaviest_first()

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        return (
            f"PairHistogram({self.total:,.0f} records, {len(self)} pairs counted in {self.covered:.1%} of them, "
            f"capacity {self.capacity})"
        )

    @property
    def key_types(self) -> tuple[pa.DataType, pa.DataType]:
        """The Arrow types of the keys of both operators."""
        return self.keys_a.type, self.keys_b.type

    @property
    def upper(self) -> Floats:
        """No pair has more records than this."""
        return self.counts + self.errors

    @property
    def absent_bound(self) -> float:
        """A pair that is not counted has at most this many records: the smallest counter, once all are taken."""
        return float(self.upper.min()) if len(self) == self.capacity else 0.0

    @property
    def covered(self) -> float:
        """The share of all records that certainly have one of the counted pairs."""
        return float(self.counts.sum() / self.total) if self.total else 1.0

    @cached_property
    def _hashes(self) -> Hashes:
        return _pair_hashes(self.hashes_a, self.hashes_b)

    def merge(self, other: PairHistogram) -> PairHistogram:
        """Both windows together, with the guarantee for their summed records and the smaller capacity.

        A pair that one side does not count gets that side's smallest counter as its error, once that side's counters
        are all taken. Commutative, and associative up to the guarantee. Keys that are all null merge with any type.
        """
        capacity = min(self.capacity, other.capacity)
        ours, theirs = self.trimmed(capacity), other.trimmed(capacity)
        a = _concatenate(ours.keys_a, theirs.keys_a, "first")
        b = _concatenate(ours.keys_b, theirs.keys_b, "second")
        merged = ours._tracked(0).merged(
            theirs._tracked(len(ours)),
            ours.absent_bound,
            theirs.absent_bound,
            lambda upper, hashes: largest(upper, hashes, capacity),
        )
        rows = np.asarray(merged.keys)
        return PairHistogram(
            a.take(pa.array(rows)),
            b.take(pa.array(rows)),
            np.concatenate([ours.hashes_a, theirs.hashes_a])[rows],
            np.concatenate([ours.hashes_b, theirs.hashes_b])[rows],
            merged.lower,
            merged.errors,
            ours.total + theirs.total,
            capacity,
        )._heaviest_first()

    def trimmed(self, capacity: int) -> PairHistogram:
        """The `capacity` heaviest pairs; a larger capacity changes nothing, since dropped pairs cannot come back."""
        _check_capacity(capacity)
        if capacity >= self.capacity:
            return self
        return replace(self._rows(largest(self.upper, self._hashes, capacity)), capacity=capacity)

    def decayed(self, factor: float) -> PairHistogram:
        """Every figure times `factor`: an older window counts for less."""
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"a decay factor is between 0 and 1, not {factor}")
        if factor == 0.0:
            return self.reset()
        return replace(
            self, counts=self.counts * factor, errors=self.errors * factor, total=self.total * factor
        )

    def reset(self) -> PairHistogram:
        """An empty histogram of the same kind, for starting over after a reconfiguration as the paper does."""
        return PairHistogram.empty(*self.key_types, capacity=self.capacity)

    def top(self, n: int = 10) -> list[tuple[Any, Any, float]]:
        """The `n` heaviest pairs with their counts, for people."""
        a, b = key_iter(self.keys_a[:n]), key_iter(self.keys_b[:n])
        return list(zip(a, b, self.counts[:n].tolist(), strict=True))

    def save(self, path: str | Path) -> None:
        """Write the pairs to a checked file."""
        files.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> PairHistogram:
        """Read what `save` wrote; a damaged file is refused by name."""
        return cls.from_bytes(Path(path).read_bytes(), str(path))

    def to_bytes(self) -> bytes:
        """The pairs as the bytes of a checked file."""
        meta = {"capacity": int(self.capacity), "total": float(self.total), "hash": HASH_NAME}
        columns = {
            "key_a": self.keys_a,
            "key_b": self.keys_b,
            "hash_a": self.hashes_a,
            "hash_b": self.hashes_b,
            "count": self.counts,
            "error": self.errors,
        }
        return files.encode(_KIND, _FORMAT, meta, {"pairs": pa.table(columns)})

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "pair histogram") -> PairHistogram:
        """Read what `to_bytes` wrote."""
        meta, tables = files.decode(data, _KIND, _FORMAT, name)
        files.check_hash(meta, name)
        pairs = tables["pairs"]
        return cls(
            pairs["key_a"].combine_chunks(),
            pairs["key_b"].combine_chunks(),
            pairs["hash_a"].to_numpy(),
            pairs["hash_b"].to_numpy(),
            pairs["count"].to_numpy(),
            pairs["error"].to_numpy(),
            meta["total"],
            meta["capacity"],
        )

    def _tracked(self, first: int) -> Tracked:
        """The counters as Space Saving merges them, with their row numbers from `first` on in place of keys."""
        return Tracked(self._hashes, self.counts, self.errors, pa.array(np.arange(first, first + len(self))))

    def _rows(self, rows: NDArray[np.int64]) -> PairHistogram:
        return replace(
            self,
            keys_a=self.keys_a.take(pa.array(rows)),
            keys_b=self.keys_b.take(pa.array(rows)),
            hashes_a=self.hashes_a[rows],
            hashes_b=self.hashes_b[rows],
            counts=self.counts[rows],
            errors=self.errors[rows],
        )

    def _heaviest_first(self) -> PairHistogram:
        return self._rows(np.lexsort((self._hashes, -self.upper)))


def _pair_hashes(a: Hashes, b: Hashes) -> Hashes:
    """One 64-bit hash of two, in this order: (x, y) and (y, x) are different pairs."""
    mixed = a.view(np.uint64) * _MIX
    mixed = ((mixed ^ (mixed >> np.uint64(32))) + b.view(np.uint64)) * _MIX
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def _concatenate(ours: pa.Array, theirs: pa.Array, side: str) -> pa.Array:
    """The keys of both, of one type."""
    if pa.types.is_null(ours.type):
        ours = ours.cast(theirs.type)
    if pa.types.is_null(theirs.type):
        theirs = theirs.cast(ours.type)
    if not ours.type.equals(theirs.type):
        raise ValueError(f"cannot merge pairs whose {side} keys are {theirs.type} into pairs of {ours.type}")
    return pa.concat_arrays([ours, theirs])


def _checked(counts: ArrayLike) -> Floats:
    figures = np.asarray(counts, dtype=np.float64).reshape(-1)
    wrong = np.flatnonzero(~(np.isfinite(figures) & (figures >= 0)))
    if len(wrong):
        raise ValueError(
            f"counts must be finite and not negative, but count {wrong[0]} is {figures[wrong[0]]}"
        )
    return figures


def _check_capacity(capacity: int) -> None:
    if isinstance(capacity, bool) or not isinstance(capacity, int | np.integer) or capacity < 1:
        raise ValueError(f"capacity is the number of pairs to count, a whole number from 1, not {capacity!r}")
