"""What was measured: the load of the heaviest keys and of every bucket over a window, nothing lost or doubled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.hashing import HASH_NAME, Hashes, Keys, as_keys, buckets_of, hash_keys, key_iter, key_repr
from unskew.core.html import Bar, fragment, ranked
from unskew.core.text import key_label

Floats: TypeAlias = NDArray[np.float64]

DEFAULT_BUCKETS = 4096
"""A table of 4096 bucket rows is 16 kB, and gives a job of 200 slots 20 buckets per slot to balance with."""

DEFAULT_CAPACITY = 65_536
"""Keys tracked individually: far more than a table will place, and a few MB at most."""

_KIND, _FORMAT = "histogram", 1


@dataclass(frozen=True, eq=False)
class Measures:
    """Three figures for each of several entries: records, load and state.

    `weights` is the load that planners balance; it equals `counts` unless records differ in cost.
    `state` is what moving the entry would cost, in bytes or any other unit; it equals `counts` unless it was
    measured.
    """

    counts: Floats
    weights: Floats
    state: Floats

    @classmethod
    def zeros(cls, n: int) -> Measures:
        """Measures of `n` entries that hold nothing."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n))

    @classmethod
    def of(
        cls, counts: ArrayLike, weights: ArrayLike | None = None, state: ArrayLike | None = None
    ) -> Measures:
        """Checked measures; weights and state default to `counts`."""
        n = _checked("counts", counts)
        w = n if weights is None else _checked("weights", weights, len(n))
        s = n if state is None else _checked("state", state, len(n))
        return cls(n, w, s)

    def __len__(self) -> int:
        return len(self.counts)

    def __repr__(self) -> str:
        records, load, state = (column.sum() for column in self.columns())
        return f"Measures({len(self)} entries, {_short(records)} records, load {_short(load)}, state {_short(state)})"

    def __getitem__(self, rows: Any) -> Measures:
        return Measures(self.counts[rows], self.weights[rows], self.state[rows])

    def __add__(self, other: Measures) -> Measures:
        return Measures(self.counts + other.counts, self.weights + other.weights, self.state + other.state)

    def columns(self) -> tuple[Floats, Floats, Floats]:
        """Counts, weights and state, in this order."""
        return self.counts, self.weights, self.state

    def scaled(self, factor: float) -> Measures:
        """Every figure times `factor`."""
        return Measures(self.counts * factor, self.weights * factor, self.state * factor)

    def summed_by(self, groups: NDArray[np.int64], size: int) -> Measures:
        """The sums over rows of equal group number, for groups 0..size-1."""
        return Measures(*(sum_by(groups, column, size) for column in self.columns()))


@dataclass(frozen=True, eq=False)
class Histogram:
    """Measured load over a window: the heaviest keys individually, all the others by bucket.

    The load of a tracked key is not part of its bucket's: `tracked` and `rest` together are everything
    that was measured, so merging and trimming never lose or double a record. Keys are identified by
    their 64-bit hash (see `hashing`) and listed heaviest first, equally heavy ones by hash. At most `capacity`
    keys are tracked; trimming adds the lightest to their buckets. `sampled` is the share of the records that
    was measured (the figures stand for all of them), `key_names` the columns of the key, if it has named columns.

    >>> h = Histogram.from_counts({"a": 10, "b": 3, "c": 1}, buckets=8)
    >>> h
    Histogram(14 records, load 14, 3 distinct keys, 8 buckets, heaviest key 'a' with 71.4% of the load)
    >>> h.total, h.heaviest_share, h.distinct
    (14.0, 0.7142857142857143, 3.0)
    >>> h.merge(h).trimmed(1).keys.to_pylist()
    ['a']
    """

    keys: pa.Array
    hashes: Hashes
    tracked: Measures
    rest: Measures
    rest_distinct: Floats
    capacity: int = DEFAULT_CAPACITY
    sampled: float = 1.0
    key_names: tuple[str, ...] = ()

    @classmethod
    def empty(
        cls,
        key_type: pa.DataType | None = None,
        *,
        buckets: int = DEFAULT_BUCKETS,
        capacity: int = DEFAULT_CAPACITY,
    ) -> Histogram:
        """A histogram of nothing."""
        _check_size(buckets, capacity)
        keys = as_keys(pa.array([], type=key_type or pa.string()))
        rest = Measures.zeros(buckets)
        return cls(keys, np.zeros(0, np.int64), Measures.zeros(0), rest, np.zeros(buckets), capacity)

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[Any, float],
        *,
        weights: Mapping[Any, float] | None = None,
        state: Mapping[Any, float] | None = None,
        buckets: int = DEFAULT_BUCKETS,
        capacity: int = DEFAULT_CAPACITY,
        key_type: pa.DataType | None = None,
    ) -> Histogram:
        """From key → number of records and, optionally, key → load and key → bytes of state."""
        for name, figures in (("weights", weights), ("state", state)):
            extra = [key for key in figures if key not in counts] if figures is not None else []
            if extra:
                raise ValueError(
                    f"{name} has the key {key_repr(extra[0])}, which is missing from counts: add its count"
                )
        return cls.from_arrays(
            list(counts),
            list(counts.values()),
            weights=None if weights is None else [weights.get(k, 0.0) for k in counts],
            state=None if state is None else [state.get(k, 0.0) for k in counts],
            buckets=buckets,
            capacity=capacity,
            key_type=key_type,
        )

    @classmethod
    def from_keys(
        cls,
        keys: Keys,
        *,
        weights: ArrayLike | None = None,
        state: ArrayLike | None = None,
        buckets: int = DEFAULT_BUCKETS,
        capacity: int = DEFAULT_CAPACITY,
        key_type: pa.DataType | None = None,
    ) -> Histogram:
        """From one key per record: an Arrow array, a pandas Series, a numpy array or a list."""
        array = as_keys(keys, key_type)
        ones = np.ones(len(array))
        return cls.from_arrays(array, ones, weights=weights, state=state, buckets=buckets, capacity=capacity)

    @classmethod
    def from_arrays(
        cls,
        keys: Keys,
        counts: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        state: ArrayLike | None = None,
        buckets: int = DEFAULT_BUCKETS,
        capacity: int = DEFAULT_CAPACITY,
        key_type: pa.DataType | None = None,
    ) -> Histogram:
        """From keys and their figures; a key that occurs several times is summed."""
        _check_size(buckets, capacity)
        array = as_keys(keys, key_type)
        measures = Measures.of(counts, weights, state)
        if len(array) != len(measures):
            raise ValueError(f"{len(array)} keys but {len(measures)} counts: pass one count per key")
        hashes, first, group = np.unique(hash_keys(array), return_index=True, return_inverse=True)
        everything = cls(
            array.take(pa.array(first)),
            hashes,
            measures.summed_by(group.reshape(-1), len(hashes)),
            Measures.zeros(buckets),
            np.zeros(buckets),
            capacity,
        )
        return everything.trimmed(capacity)

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of the keys; a struct for a composite key."""
        return self.keys.type

    @property
    def buckets(self) -> int:
        """The number of buckets H."""
        return len(self.rest)

    @property
    def total(self) -> float:
        """The load of everything."""
        return float(self.tracked.weights.sum() + self.rest.weights.sum())

    @property
    def total_state(self) -> float:
        """The state of everything."""
        return float(self.tracked.state.sum() + self.rest.state.sum())

    @property
    def heaviest_share(self) -> float:
        """f₁: the heaviest key's share of the load; 0 if no key is tracked."""
        return float(self.tracked.weights[0] / self.total) if len(self.hashes) and self.total else 0.0

    @property
    def records(self) -> float:
        """The number of records."""
        return float(self.tracked.counts.sum() + self.rest.counts.sum())

    def sampling_error(self, slots: int) -> float:
        """The relative standard error of a slot's load over `slots` slots; 0 if every record was measured."""
        measured = self.records * self.sampled
        return float(np.sqrt(slots / measured)) if self.sampled < 1.0 and measured else 0.0

    @property
    def distinct(self) -> float:
        """The estimated number of distinct keys, |D| in the papers."""
        return float(len(self.hashes) + self.rest_distinct.sum())

    @property
    def key_buckets(self) -> NDArray[np.int64]:
        """The bucket of each tracked key."""
        return buckets_of(self.hashes, self.buckets)

    @property
    def _bucket_distinct(self) -> Floats:
        return self.rest_distinct + np.bincount(self.key_buckets, minlength=self.buckets)

    def __repr__(self) -> str:
        parts = [
            f"{_short(self.records)} records",
            f"load {_short(self.total)}",
            f"{_short(self.distinct)} distinct keys",
            f"{self.buckets} buckets",
        ]
        if self.key_names:
            parts.append(f"key {', '.join(map(key_repr, self.key_names))}")
        if len(self.hashes):
            # a sketch of composite keys has only their hashes
            heaviest = (
                key_repr(next(iter(key_iter(self.keys[:1])))) if self.keys[0].is_valid else "(by its hash)"
            )
            parts.append(f"heaviest key {heaviest} with {self.heaviest_share:.1%} of the load")
        if self.sampled < 1.0:
            parts.append(f"sampled {self.sampled:.2%}")
        return f"Histogram({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the heaviest keys."""
        total = self.total or 1.0
        top = self.top(10)
        longest = max((weight for _, weight in top), default=1.0) or 1.0
        facts = [
            ("records", f"{self.records:,.0f}"),
            ("distinct keys", f"about {self.distinct:,.0f}"),
            ("heaviest key", f"{self.heaviest_share:.1%} of the load"),
        ]
        bars = [Bar(key_label(key), weight / longest, f"{weight / total:.1%}") for key, weight in top]
        name = ", ".join(self.key_names) or "key"
        return fragment(f"Histogram of {name}", facts, ranked("Heaviest keys, share of the load", bars))

    def merge(self, other: Histogram) -> Histogram:
        """Both together: associative and commutative.

        Loads add up exactly while at most `capacity` keys are tracked between the two; beyond that the
        lightest go to their buckets, and the load of every bucket with its keys is still exact. A bucket has at
        least as many distinct keys as either of the two found in it, and as both together track in it: this lower
        bound is the estimate. Keys that are all null, or no keys at all, merge with keys of any type.
        """
        if pa.types.is_null(self.key_type) and not pa.types.is_null(other.key_type):
            return replace(self, keys=self.keys.cast(other.key_type)).merge(other)
        if not self.key_type.equals(other.key_type) and not pa.types.is_null(other.key_type):
            raise ValueError(
                f"cannot merge a histogram of {other.key_type} keys into one of {self.key_type} keys"
            )
        if self.buckets != other.buckets:
            raise ValueError(
                f"cannot merge histograms of {self.buckets} and {other.buckets} buckets: "
                "measure both with the same number of buckets"
            )
        both = np.concatenate([self.hashes, other.hashes])
        hashes, first, group = np.unique(both, return_index=True, return_inverse=True)
        pairs = zip(self.tracked.columns(), other.tracked.columns(), strict=True)
        measures = Measures(*(np.concatenate(pair) for pair in pairs))
        tracked = np.bincount(buckets_of(hashes, self.buckets), minlength=self.buckets)
        distinct = np.maximum(np.maximum(self._bucket_distinct, other._bucket_distinct), tracked)
        merged = Histogram(
            pa.concat_arrays([self.keys, other.keys.cast(self.key_type)]).take(pa.array(first)),
            hashes,
            measures.summed_by(group.reshape(-1), len(hashes)),
            self.rest + other.rest,
            distinct - tracked,
            max(self.capacity, other.capacity),
            self._sampled_with(other),
            self.key_names or other.key_names,
        )
        return merged.trimmed(merged.capacity)

    def trimmed(self, capacity: int) -> Histogram:
        """The heaviest `capacity` keys tracked, the others part of their buckets."""
        _check_size(self.buckets, capacity)
        order = np.lexsort((self.hashes, -self.tracked.weights))
        heaviest, lightest = order[:capacity], order[capacity:]
        homes = self.key_buckets[lightest]
        rest, distinct = self.rest, self.rest_distinct
        if len(lightest):
            rest = rest + self.tracked[lightest].summed_by(homes, self.buckets)
            distinct = distinct + np.bincount(homes, minlength=self.buckets)
        return replace(
            self,
            keys=self.keys.take(pa.array(heaviest)),
            hashes=self.hashes[heaviest],
            tracked=self.tracked[heaviest],
            rest=rest,
            rest_distinct=distinct,
            capacity=capacity,
        )

    def _sampled_with(self, other: Histogram) -> float:
        """The share that one sample of all records would need to be as precise as both together."""
        mine, theirs = self.records, other.records
        if mine + theirs == 0:
            return min(self.sampled, other.sampled)
        return (mine + theirs) / (mine / self.sampled + theirs / other.sampled)

    def decayed(self, factor: float) -> Histogram:
        """Every figure times `factor`: an older window counts for less."""
        if not 0.0 <= factor <= 1.0:
            raise ValueError(f"a decay factor is between 0 and 1, not {factor}")
        return replace(self, tracked=self.tracked.scaled(factor), rest=self.rest.scaled(factor))

    def top(self, n: int = 10) -> list[tuple[Any, float]]:
        """The `n` heaviest keys with their load, for people."""
        return list(zip(key_iter(self.keys[:n]), self.tracked.weights[:n].tolist(), strict=True))

    def save(self, path: Address) -> None:
        """Write the histogram to a checked file; `path` may be an address such as `s3a://bucket/name`."""
        addresses.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: Address) -> Histogram:
        """Read a histogram that `save` wrote; a damaged file is refused by name."""
        return cls.from_bytes(addresses.read(path), str(path))

    def to_bytes(self) -> bytes:
        """The histogram as the bytes of a checked file."""
        meta = {
            "capacity": int(self.capacity),
            "sampled": float(self.sampled),
            "key_names": list(self.key_names),
            "hash": HASH_NAME,
        }
        keys = {"key": self.keys, "hash": self.hashes, **_named(self.tracked)}
        buckets = {"distinct": self.rest_distinct, **_named(self.rest)}
        return files.encode(_KIND, _FORMAT, meta, {"keys": pa.table(keys), "buckets": pa.table(buckets)})

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "histogram") -> Histogram:
        """Read what `to_bytes` wrote."""
        meta, tables = files.decode(data, _KIND, _FORMAT, name)
        files.check_hash(meta, name)
        keys, buckets = tables["keys"], tables["buckets"]
        return cls(
            keys["key"].combine_chunks(),
            keys["hash"].to_numpy(),
            Measures(*(keys[c].to_numpy() for c in _COLUMNS)),
            Measures(*(buckets[c].to_numpy() for c in _COLUMNS)),
            buckets["distinct"].to_numpy(),
            meta["capacity"],
            meta["sampled"],
            tuple(meta["key_names"]),
        )


def sum_by(groups: NDArray[np.integer[Any]], figures: Floats, size: int) -> Floats:
    """The sums of the figures of equal group number, for groups 0..size-1."""
    # numpy returns integers where there is nothing to sum
    return np.bincount(groups, figures, size).astype(np.float64, copy=False)


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.4g}"


def _checked(name: str, figures: ArrayLike, length: int | None = None) -> Floats:
    array = np.asarray(figures, dtype=np.float64).reshape(-1)
    if length is not None and len(array) != length:
        raise ValueError(f"{name} has {len(array)} figures where there are {length} keys")
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        raise ValueError(
            f"{name} must be finite and not negative, but figure {wrong[0]} is {array[wrong[0]]}"
        )
    return array


def _check_size(buckets: int, capacity: int) -> None:
    if buckets < 1:
        raise ValueError(f"a histogram needs at least one bucket, not {buckets}")
    if capacity < 0:
        raise ValueError(f"capacity is the number of tracked keys, 0 or more, not {capacity}")


_COLUMNS = ("counts", "weights", "state")


def _named(measures: Measures) -> dict[str, Floats]:
    return dict(zip(_COLUMNS, measures.columns(), strict=True))
