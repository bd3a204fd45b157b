"""What was decided: the slot of every heavy key and of every bucket, so that every key has a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.hashing import HASH_NAME, Hashes, Keys, as_keys, buckets_of, hash_keys, key_iter, key_repr
from unskew.core.histogram import DEFAULT_BUCKETS, Floats

Slots: TypeAlias = NDArray[np.int32]

_KIND = "routing table"
# Format 2 adds shares. A table without them is still written in format 1, which every unskew reads.
_FORMAT, _NEWEST_FORMAT = 1, 2
# Shares that differ by less are the same: some of them are computed as 1/n.
_SAME_SHARE = 1e-12
# 64 kB of flags rule out nearly all keys that are not heavy.
_FILTER_BITS = 16


@dataclass(frozen=True, eq=False)
class RoutingTable:
    """Heavy key → slot(s), bucket → slot: the partitioning function, as data.

    A key's slot depends on its 64-bit hash alone: the row of that hash if there is one, else the row of
    its bucket `hash mod H`. So one key always goes to one slot, and Spark computes the same slot from the
    same hash. A heavy row may name several slots (a split row, for operators that can merge partial
    results). The slots of a split row share its key in equal parts, where a slot named twice gets two of them, unless
    `shares` says otherwise: one number for each entry of `choices`, which add up to 1 in every row.

    Build one with `build` or `hashed`; the fields are for reading. Heavy rows are ordered by hash.

    >>> table = RoutingTable.build(4, np.arange(8) % 4, heavy=["a", "c"], heavy_slots=[3, 0])
    >>> table
    RoutingTable(version 0, 4 slots, 8 buckets, 2 heavy keys)
    >>> table.slot_of(["a", "b", None]).tolist()
    [3, 3, 2]
    """

    slots: int
    buckets: Slots
    keys: pa.Array
    hashes: Hashes
    offsets: NDArray[np.int64]
    choices: Slots
    version: int = 0
    shares: Floats | None = None

    @classmethod
    def hashed(
        cls, slots: int, buckets: int = DEFAULT_BUCKETS, key_type: pa.DataType | None = None
    ) -> RoutingTable:
        """Plain hash partitioning: bucket mod slots, no heavy rows."""
        check_slots(slots, buckets)
        return cls.build(slots, np.arange(buckets) % slots, key_type=key_type)

    @classmethod
    def build(
        cls,
        slots: int,
        buckets: ArrayLike,
        heavy: Keys = (),
        heavy_slots: Sequence[int] | Sequence[Sequence[int]] | NDArray[Any] = (),
        *,
        key_type: pa.DataType | None = None,
        hashes: Hashes | None = None,
        version: int = 0,
        heavy_shares: Sequence[Sequence[float]] | None = None,
    ) -> RoutingTable:
        """A checked table; `heavy_slots` has one slot, or a list of slots, for each heavy key.

        `heavy_shares` has a list of positive numbers of the same length: how the slots share the key.
        """
        bucket_slots = np.asarray(buckets)
        check_slots(slots, bucket_slots.size)
        keys = as_keys(heavy, key_type)
        if pa.types.is_null(keys.type) and not len(keys):
            keys = keys.cast(key_type or pa.string())
        if hashes is None:
            hashes = hash_keys(keys)
        flat_slots, lengths = _flatten(heavy_slots)
        choices = _checked(flat_slots, slots, "a heavy key")
        if len(lengths) != len(keys) or len(hashes) != len(keys):
            raise ValueError(
                f"{len(keys)} heavy keys but {len(hashes)} hashes and {len(lengths)} slots: pass one of each per key"
            )
        order = np.argsort(hashes, kind="stable")
        repeated = np.flatnonzero(np.diff(hashes[order]) == 0)
        if len(repeated):
            key = next(iter(key_iter(keys.take(pa.array(order[repeated[:1]])))))
            raise ValueError(
                f"two heavy rows have the same key hash, that of {key_repr(key)}: name each key once"
            )
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shares = None if heavy_shares is None else _checked_shares(heavy_shares, lengths)
        if len(choices) > len(keys):
            entries = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in order])
        else:
            entries = order
        choices = choices[entries]
        return cls(
            int(slots),
            _checked(bucket_slots, slots, "a bucket"),
            keys.take(pa.array(order)),
            hashes[order],
            np.concatenate([[0], np.cumsum(lengths[order])]).astype(np.int64),
            choices,
            int(version),
            None if shares is None else shares[entries],
        )

    def slot_of(self, keys: Keys, choice: ArrayLike = 0) -> Slots:
        """The slot of each key; in a split row, the slot at position `choice` modulo its length."""
        return self.slot_of_hashes(hash_keys(keys, self.key_type), choice)

    def slot_of_hashes(self, hashes: Hashes, choice: ArrayLike = 0) -> Slots:
        """The slot of each key, from the hash of the key."""
        slots = self.buckets[buckets_of(hashes, len(self.buckets))]
        at, rows = self._heavy(hashes)
        if len(at):
            first, length = self.offsets[rows], self.lengths[rows]
            which = np.broadcast_to(np.asarray(choice, dtype=np.int64), len(hashes))[at]
            slots[at] = self.choices[first + which % length]
        return slots

    def rows_of(self, hashes: Hashes) -> NDArray[np.int64]:
        """The heavy row of each hash, or -1."""
        rows = np.full(len(hashes), -1, dtype=np.int64)
        at, heavy_rows = self._heavy(hashes)
        rows[at] = heavy_rows
        return rows

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of the keys."""
        return self.keys.type

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many slots each heavy row names."""
        return np.diff(self.offsets)

    @property
    def heavy_slots(self) -> Slots:
        """The first slot of each heavy row: its only one, unless the row is split."""
        return self.choices[self.offsets[:-1]]

    @cached_property
    def choice_shares(self) -> Floats:
        """The share of its key that each entry of `choices` gets."""
        return np.repeat(1.0 / self.lengths, self.lengths) if self.shares is None else self.shares

    @property
    def is_split(self) -> bool:
        """Whether a key may be sent to more than one slot."""
        return bool(np.any(self.choices != np.repeat(self.heavy_slots, self.lengths)))

    @property
    def heavy(self) -> dict[Any, int | tuple[int, ...]]:
        """Heavy key → slot, or a tuple of slots, for people."""
        rows = [tuple(row.tolist()) for row in np.split(self.choices, self.offsets[1:-1])]
        keyed_rows = zip(key_iter(self.keys), rows[: len(self.keys)], strict=True)
        return {key: row[0] if len(row) == 1 else row for key, row in keyed_rows}

    def with_version(self, version: int) -> RoutingTable:
        """The same table with another version."""
        return replace(self, version=version)

    def same_routes(self, other: RoutingTable) -> bool:
        """Whether both tables send every key to the same slots, row by row; versions may differ."""
        return (
            self.slots == other.slots
            and self.key_type.equals(other.key_type)
            and np.array_equal(self.buckets, other.buckets)
            and np.array_equal(self.hashes, other.hashes)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.choices, other.choices)
            and np.allclose(self.choice_shares, other.choice_shares, rtol=0.0, atol=_SAME_SHARE)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RoutingTable) and self.version == other.version and self.same_routes(other)

    def __repr__(self) -> str:
        split = int(np.count_nonzero(self.lengths > 1))
        heavy = f"{len(self.hashes)} heavy keys" + (f", {split} of them split" if split else "")
        buckets = len(self.buckets)
        return f"RoutingTable(version {self.version}, {self.slots} slots, {buckets} buckets, {heavy})"

    def __hash__(self) -> int:
        return hash((self.slots, self.version, self.buckets.tobytes(), self.hashes.tobytes()))

    def save(self, path: Address) -> None:
        """Write the table to a checked file; `path` may be an address such as `s3a://bucket/name`."""
        addresses.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: Address) -> RoutingTable:
        """Read a table that `save` wrote; a damaged file is refused by name."""
        return cls.from_bytes(addresses.read(path), str(path))

    def to_bytes(self) -> bytes:
        """The table as the bytes of a checked file."""
        rows = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.choices))
        heavy = pa.table({"key": self.keys, "hash": self.hashes, "slots": rows})
        meta = {"slots": self.slots, "version": self.version, "hash": HASH_NAME}
        tables = {"heavy": heavy, "buckets": pa.table({"slot": self.buckets})}
        if self.shares is None:
            return files.encode(_KIND, _FORMAT, meta, tables)
        tables["shares"] = pa.table({"share": self.shares})
        return files.encode(_KIND, _NEWEST_FORMAT, meta, tables)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "routing table") -> RoutingTable:
        """Read what `to_bytes` wrote."""
        meta, tables = files.decode(data, _KIND, _NEWEST_FORMAT, name)
        files.check_hash(meta, name)
        heavy = tables["heavy"]
        rows = heavy["slots"].combine_chunks()
        return cls(
            meta["slots"],
            tables["buckets"]["slot"].to_numpy(),
            heavy["key"].combine_chunks(),
            heavy["hash"].to_numpy(),
            rows.offsets.to_numpy().astype(np.int64) if len(rows) else np.zeros(1, np.int64),
            rows.values.to_numpy() if len(rows) else np.zeros(0, np.int32),
            meta["version"],
            tables["shares"]["share"].to_numpy() if "shares" in tables else None,
        )

    @cached_property
    def _filter(self) -> NDArray[np.bool_]:
        flags = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
        flags[_high_bits(self.hashes)] = True
        return flags

    def _heavy(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions of heavy keys in `hashes`, and their rows."""
        if not len(self.hashes):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        at = np.flatnonzero(self._filter[_high_bits(hashes)])
        candidates = hashes[at]
        rows = np.minimum(np.searchsorted(self.hashes, candidates), len(self.hashes) - 1)
        heavy = self.hashes[rows] == candidates
        return at[heavy], rows[heavy]


def check_slots(slots: int, buckets: int) -> None:
    """Refuse a number of slots that no table of `buckets` buckets can have."""
    if isinstance(slots, bool) or not isinstance(slots, int | np.integer):
        raise ValueError(f"slots is a whole number, not {slots!r}")
    if slots < 1:
        raise ValueError(f"a table needs at least one slot, not {slots}")
    if slots > buckets:
        raise ValueError(
            f"{slots} slots but only {buckets} buckets: some slots could never be used; "
            f"measure with buckets={_enough_buckets(slots)} or more"
        )


def _enough_buckets(slots: int) -> int:
    return 1 << int(np.ceil(np.log2(slots * 20)))


def _high_bits(hashes: Hashes) -> NDArray[np.int64]:
    return (hashes >> np.int64(64 - _FILTER_BITS)) + np.int64(1 << (_FILTER_BITS - 1))


def _flatten(heavy_slots: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """One row of slots per key as one flat array, and the length of each row."""
    if isinstance(heavy_slots, np.ndarray) and heavy_slots.ndim == 1 and heavy_slots.dtype != object:
        return heavy_slots, np.ones(len(heavy_slots), dtype=np.int64)
    rows = [list(row) if hasattr(row, "__len__") else [row] for row in heavy_slots]
    if any(not row for row in rows):
        raise ValueError("a heavy row names at least one slot")
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return np.array([slot for row in rows for slot in row]), lengths


def _checked_shares(heavy_shares: Sequence[Sequence[float]], lengths: NDArray[np.int64]) -> Floats:
    """One share per slot of each row, scaled so that those of a row add up to 1."""
    if [len(row) for row in heavy_shares] != lengths.tolist():
        raise ValueError("heavy_shares has one share for each slot of each heavy key")
    shares = np.array([share for row in heavy_shares for share in row], dtype=np.float64)
    wrong = shares[~((shares > 0) & np.isfinite(shares))]
    if len(wrong):
        raise ValueError(f"a share of a heavy key is a positive number, not {wrong[0]}")
    rows = np.repeat(np.arange(len(lengths)), lengths)
    scaled: Floats = shares / np.bincount(rows, shares, len(lengths))[rows] if len(shares) else shares
    return scaled


def _checked(numbers: NDArray[Any], slots: int, entry: str) -> Slots:
    """A copy of the slot numbers, refused if one is not a slot; checked before they are narrowed to 32 bits."""
    if numbers.ndim != 1:
        raise ValueError(f"the slots are a list of numbers, not of {numbers.ndim} dimensions")
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise ValueError(f"{entry} is sent to slot {numbers[0]!r}, but slots are whole numbers")
    wrong = numbers[(numbers < 0) | (numbers >= slots)]
    if len(wrong):
        raise ValueError(f"{entry} is sent to slot {wrong[0]}, but slots are 0..{slots - 1}")
    return numbers.astype(np.int32)
