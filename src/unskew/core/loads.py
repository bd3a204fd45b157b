"""What a table does with a measured load: slot loads, imbalance, the lower bound, migration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from unskew.core.hashing import Hashes
from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.routing import RoutingTable, Slots

Measure = Literal["counts", "weights", "state"]

# Shares such as 1/5 do not add up exactly in floats: a key whose share changes by less than this stays.
_ROUNDING = 1e-9


def slot_loads(table: RoutingTable, histogram: Histogram, measure: Measure = "weights") -> Floats:
    """The load of each slot under `table`; a split row's load is shared among its slots."""
    check_match(table, histogram)
    loads = sum_by(table.buckets, getattr(histogram.rest, measure), table.slots)
    tracked: Floats = getattr(histogram.tracked, measure)
    rows = table.rows_of(histogram.hashes)
    light = rows < 0
    homes = table.buckets[histogram.key_buckets[light]]
    loads += sum_by(homes, tracked[light], table.slots)
    share = np.zeros(len(table.hashes))
    share[rows[~light]] = tracked[~light]
    pieces = np.repeat(share, table.lengths) * table.choice_shares
    return loads + sum_by(table.choices, pieces, table.slots)


def imbalance(loads: Floats) -> float:
    """Max over mean, 1 when perfectly even (λ, r_k and load imbalance in the papers)."""
    mean = loads.mean()
    return float(loads.max() / mean) if mean > 0 else 1.0


def lower_bound(histogram: Histogram, slots: int) -> float:
    """The least imbalance that a table which keeps keys whole can reach: max(f₁, 1/N) · N.

    >>> lower_bound(Histogram.from_counts({"a": 3, "b": 1}), 2)
    1.5
    """
    return max(histogram.heaviest_share * slots, 1.0)


def check_match(table: RoutingTable, histogram: Histogram) -> None:
    """Refuse a table and a histogram that are not about the same type of keys and number of buckets."""
    if len(table.buckets) != histogram.buckets:
        raise ValueError(
            f"the table has {len(table.buckets)} buckets and the histogram {histogram.buckets}: "
            "measure with the table's number of buckets"
        )
    same = table.key_type.equals(histogram.key_type)
    if not same and len(table.hashes) and len(histogram.hashes):
        raise ValueError(
            f"the table is for {table.key_type} keys and the histogram for {histogram.key_type} keys: "
            "cast the key column to the table's type before measuring"
        )


@dataclass(frozen=True, eq=False)
class Migration:
    """What moves between two tables.

    The keys are those whose slot changes, of all that have a row in either table or are tracked by the histogram;
    the buckets are those whose slot changes, without those keys. `load_share` and `state_share` are the moved part
    of all load and of all state, and `state` is in the histogram's unit.
    """

    hashes: Hashes
    key_from: Slots
    key_to: Slots
    buckets: NDArray[np.int64]
    bucket_from: Slots
    bucket_to: Slots
    load: float
    state: float
    load_share: float
    state_share: float

    def __len__(self) -> int:
        return len(self.hashes) + len(self.buckets)

    def __repr__(self) -> str:
        return (
            f"Migration({len(self.hashes)} keys, {len(self.buckets)} buckets, "
            f"{self.load_share:.1%} of the load, {self.state_share:.1%} of the state)"
        )


def migration(old: RoutingTable, new: RoutingTable, histogram: Histogram) -> Migration:
    """The entries whose slot differs between two tables, and the load and state that go with them.

    A key that only gains or loses its heavy row within one slot does not move. Of a split row, the share of the
    state that ends up on a slot it was not on before counts as moved.

    >>> h = Histogram.from_counts({"a": 3, "b": 2, "c": 5}, buckets=2)
    >>> migration(RoutingTable.build(2, [0, 0]), RoutingTable.build(2, [0, 0], ["a", "b"], [1, 1]), h)
    Migration(2 keys, 0 buckets, 50.0% of the load, 50.0% of the state)
    """
    check_match(new, histogram)
    if len(old.buckets) != len(new.buckets):
        raise ValueError(
            f"tables of {len(old.buckets)} and {len(new.buckets)} buckets cannot be compared: "
            "plan both with the same number of buckets"
        )
    check_match(old, histogram)
    # with return_index np.unique sorts, which is three times as fast as its hash table
    hashes, _ = np.unique(np.concatenate([histogram.hashes, old.hashes, new.hashes]), return_index=True)
    source, target = old.slot_of_hashes(hashes), new.slot_of_hashes(hashes)
    moved_part = (source != target).astype(np.float64)
    if old.is_split or new.is_split:
        moved_part = _moved_parts(old, new, hashes)
    at = np.searchsorted(hashes, histogram.hashes)
    changed = np.flatnonzero(old.buckets != new.buckets)
    load = float(histogram.tracked.weights @ moved_part[at] + histogram.rest.weights[changed].sum())
    state = float(histogram.tracked.state @ moved_part[at] + histogram.rest.state[changed].sum())
    moved = moved_part > 0
    return Migration(
        hashes[moved],
        source[moved],
        target[moved],
        changed,
        old.buckets[changed],
        new.buckets[changed],
        load,
        state,
        load / histogram.total if histogram.total else 0.0,
        state / histogram.total_state if histogram.total_state else 0.0,
    )


def _moved_parts(old: RoutingTable, new: RoutingTable, hashes: Hashes) -> Floats:
    """The share of each key that `new` puts on slots where `old` had less of it."""
    slots = max(old.slots, new.slots)
    key_new, slot_new, share_new = _shares(new, hashes)
    key_old, slot_old, share_old = _shares(old, hashes)
    cell = np.concatenate([key_new * slots + slot_new, key_old * slots + slot_old])
    cells, inverse = np.unique(cell, return_inverse=True)
    gained = sum_by(inverse.reshape(-1), np.concatenate([share_new, -share_old]), len(cells))
    gained[gained < _ROUNDING] = 0.0
    return sum_by(cells // slots, gained, len(hashes))


def _shares(table: RoutingTable, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Every (key, slot) that the table sends records to, with the share of the key that goes there."""
    rows = table.rows_of(hashes)
    heavy, light = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
    lengths = table.lengths[rows[heavy]]
    first = np.repeat(table.offsets[rows[heavy]], lengths)
    within = np.arange(len(first)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    keys = np.concatenate([light, np.repeat(heavy, lengths)])
    slots = np.concatenate([table.slot_of_hashes(hashes[light]), table.choices[first + within]])
    shares = np.concatenate([np.ones(len(light)), table.choice_shares[first + within]])
    return keys, slots.astype(np.int64), shares
