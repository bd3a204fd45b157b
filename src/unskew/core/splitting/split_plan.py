"""The plan of a join that splits hot keys: a grid of slots for each of them, a routing table for all other keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.hashing import Hashes, key_iter, key_repr
from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.join_load import OUTPUT_COST, JoinLoad, JoinType, rows_of_keys
from unskew.core.loads import imbalance
from unskew.core.plan import check_table
from unskew.core.routing import RoutingTable, Slots, check_slots
from unskew.core.splitting.grids import HotKeys, dealt_sides, place, shapes

KIND = "split plan"
"""What the first line of a saved split plan calls it."""

MOST_COPIED = 0.1
"""The rows that may be copied, as a share of the rows of both sides."""

_FORMAT = 1

_FINENESS = (1.0, 0.75, 0.5, 0.375, 0.25, 0.125)
"""The loads of a cell that are tried, in mean slots, coarsest first: the finer the cells, the evener the slots, and the
more is copied."""

_EVEN_ENOUGH = 1.02
"""No finer cells are tried below this imbalance, or chosen unless they lower the fullest slot by this factor."""

_SPARED = 0.01
"""The rows that may be copied to have a part of the heaviest keys on every slot: a hundredth takes no time to speak of,
while a wrong load of a hot key would leave some slots with too much."""

_OWN_ROW = 0.01
"""A whole key above a hundredth of a mean slot has a row of its own in the table."""


@dataclass(frozen=True, eq=False)
class SplitPlan:
    """Grids for the hot keys of a join, a routing table for all others, and what they will do.

    Key i has `rows[i]` × `columns[i]` cells; their slots, row by row of the grid, are `cells[offsets[i]:offsets[i+1]]`.
    They are distinct, so a left and a right row of the key are together on exactly one slot. `loads` is the predicted
    load of each slot, `copied` the rows of the left and of the right side that are made in addition to the `records`.

    >>> from unskew.core.join_load import join_load
    >>> left = Histogram.from_counts({"hot": 900, **{f"cold {i}": 1 for i in range(100)}})
    >>> right = Histogram.from_counts({"hot": 1, **{f"cold {i}": 1 for i in range(100)}})
    >>> SplitPlan.make(left, right, join_load(left, right, "left", 4), "left", slots=4)
    SplitPlan(left join, 4 slots, 1 split key in 4 cells, imbalance 1.000, copies 0.3% of the rows)
    """

    kind: JoinType
    table: RoutingTable
    keys: pa.Array
    hashes: Hashes
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    cells: Slots
    loads: Floats
    records: float = 0.0
    copied: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        if not len(self.keys) == len(self.hashes) == len(self.rows) == len(self.columns):
            raise ValueError(
                f"{len(self.keys)} split keys, {len(self.hashes)} hashes, {len(self.rows)} numbers of rows and "
                f"{len(self.columns)} of columns: a split plan has one of each per key"
            )
        if len(np.unique(self.hashes)) < len(self.hashes):
            raise ValueError("a key is split twice: name each key once")
        for key, (rows, columns) in enumerate(zip(self.rows.tolist(), self.columns.tolist(), strict=True)):
            slots = self.cells[self.offsets[key] : self.offsets[key + 1]]
            name = f"the grid of key {key_repr(next(iter(key_iter(self.keys[key : key + 1]))))}"
            if rows < 1 or columns < 1 or rows * columns > self.slots:
                raise ValueError(
                    f"{name} has {rows} × {columns} cells, but a grid has 1 to {self.slots} cells on "
                    f"{self.slots} slots: plan again for this number of slots"
                )
            if len(slots) != rows * columns or len(np.unique(slots)) < len(slots):
                raise ValueError(
                    f"{name} has {rows} × {columns} cells, which are not on as many distinct slots"
                )
            if slots.min() < 0 or slots.max() >= self.slots:
                raise ValueError(f"{name} names slot {slots.max()}, but slots are 0..{self.slots - 1}")
        if self.offsets[-1] != len(self.cells):
            raise ValueError(f"{len(self.cells)} slots for {self.offsets[-1]} cells: name one slot per cell")

    @classmethod
    def make(
        cls,
        left: Histogram,
        right: Histogram,
        load: JoinLoad,
        kind: JoinType,
        slots: int,
        *,
        most_copied: float = MOST_COPIED,
        output_cost: float = OUTPUT_COST,
        only: Hashes | None = None,
    ) -> SplitPlan:
        """The plan of a join of two measured sides, whose `load` is that of `join_load` at this `output_cost`.

        Of several degrees of fineness, the one whose fullest slot has the least load, copies included; at most
        `most_copied` times the rows of both sides are copied. `only` are the keys that may be split, if not all may.
        """
        check_slots(slots, load.histogram.buckets)
        check_most_copied(most_copied)
        histogram = load.histogram
        candidates = _candidates(histogram, slots, only)
        hot = _hot_keys(left, right, histogram, kind, output_cost, candidates)
        records = left.records + right.records
        mean = (histogram.total + load.spread) / slots
        best: SplitPlan | None = None
        for fineness in (np.inf, *_FINENESS):
            if best is not None and imbalance(best.loads) <= _EVEN_ENOUGH:
                break
            rows, columns = shapes(
                hot, kind, slots, fineness * mean, most_copied * records, _SPARED * records
            )
            plan = _placed(kind, histogram, candidates, hot, rows, columns, slots, load.spread / slots)
            if best is None or plan.loads.max() * _EVEN_ENOUGH < best.loads.max():
                best = plan
        assert best is not None
        return replace(best, records=records)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the cells of each key start, and at the end where they all end."""
        return np.concatenate([[0], np.cumsum(self.rows * self.columns)]).astype(np.int64)

    @property
    def slots(self) -> int:
        """N."""
        return self.table.slots

    @property
    def imbalance(self) -> float:
        """Predicted max/mean slot load."""
        return imbalance(self.loads)

    @property
    def copied_share(self) -> float:
        """The copied rows as a share of the rows of both sides."""
        return sum(self.copied) / self.records if self.records else 0.0

    @cached_property
    def grids(self) -> dict[Any, list[list[int]]]:
        """Split key → its slots as rows of a grid, for people."""
        return {
            key: self.cells[start:end].reshape(rows, columns).tolist()
            for key, start, end, rows, columns in zip(
                key_iter(self.keys), self.offsets[:-1], self.offsets[1:], self.rows, self.columns, strict=True
            )
        }

    def __repr__(self) -> str:
        keys = f"{len(self.keys)} split key{'' if len(self.keys) == 1 else 's'}"
        return (
            f"SplitPlan({self.kind} join, {self.slots} slots, {keys} in {len(self.cells)} cells, "
            f"imbalance {self.imbalance:.3f}, copies {self.copied_share:.1%} of the rows)"
        )

    def check(self, key_type: pa.DataType, slots: int | None = None) -> None:
        """Refuse to be used for another key type or another number of slots."""
        check_table(self.table, key_type, slots)

    def check_kind(self, kind: JoinType) -> None:
        """Refuse to be used for a join that may not split keys this way."""
        if kind == "full" and len(self.keys):
            raise ValueError(
                "a full join splits only keys that are known to be on both sides at this time, so it cannot use a "
                "split plan: leave plan out, and pass planner='split' to have keys split"
            )
        for deals, parts, side in zip(
            dealt_sides(kind), (self.rows, self.columns), ("left", "right"), strict=True
        ):
            if not deals and len(parts) and parts.max() > 1:
                raise ValueError(
                    f"the plan, made for a join of type {self.kind!r}, deals out the {side} rows of a key, which a "
                    f"join of type {kind!r} may not: make a plan for this join type"
                )

    def save(self, path: Address) -> None:
        """Write the plan to a checked file; `path` may be an address such as `s3a://bucket/name`."""
        addresses.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """The plan as the bytes of a checked file."""
        cells = pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), pa.array(self.cells))
        grids = {
            "key": self.keys,
            "hash": self.hashes,
            "rows": self.rows,
            "columns": self.columns,
            "slots": cells,
        }
        parts = {
            "table": self.table.to_bytes(),
            "grids": files.encode("grids", _FORMAT, {}, {"grids": pa.table(grids)}),
        }
        meta = {
            "kind": self.kind,
            "records": self.records,
            "copied": list(self.copied),
            "loads": self.loads.tolist(),
        }
        return files.encode_parts(KIND, _FORMAT, meta, parts)

    @classmethod
    def load(cls, path: Address) -> SplitPlan:
        """Read a plan that `save` wrote; a damaged file is refused by name."""
        return cls.from_bytes(addresses.read(path), str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = KIND) -> SplitPlan:
        """Read what `to_bytes` wrote."""
        meta, parts = files.decode_parts(data, KIND, _FORMAT, name)
        grids = files.decode(parts["grids"], "grids", _FORMAT, name)[1]["grids"]
        try:
            return cls(
                meta["kind"],
                RoutingTable.from_bytes(parts["table"], name),
                grids["key"].combine_chunks(),
                grids["hash"].to_numpy(),
                grids["rows"].to_numpy(),
                grids["columns"].to_numpy(),
                grids["slots"].combine_chunks().flatten().to_numpy(),
                np.array(meta["loads"]),
                meta["records"],
                (meta["copied"][0], meta["copied"][1]),
            )
        except files.UnreadableFileError:
            raise
        except ValueError as error:
            raise files.UnreadableFileError(f"{name}: {error}") from error


def check_most_copied(most_copied: float) -> None:
    """Refuse a bound on copied rows that is not a share."""
    if isinstance(most_copied, bool) or not isinstance(most_copied, int | float) or not most_copied >= 0:
        raise ValueError(
            f"most_copied is a share of the rows of both sides, 0 or more, such as 0.1, not {most_copied!r}"
        )


def _candidates(histogram: Histogram, slots: int, only: Iterable[int] | None) -> NDArray[np.int64]:
    """The tracked keys that may be split, heaviest first: those above the finest cell."""
    heavy = histogram.tracked.weights > _FINENESS[-1] * histogram.total / slots
    if only is not None:
        heavy &= np.isin(histogram.hashes, np.asarray(only, np.int64))
    return np.flatnonzero(heavy)


def _hot_keys(
    left: Histogram,
    right: Histogram,
    histogram: Histogram,
    kind: JoinType,
    output_cost: float,
    candidates: NDArray[np.int64],
) -> HotKeys:
    """What the join does with each candidate; the load of reading is shared out by the rows of both sides."""
    left_rows, right_rows, emitted = rows_of_keys(left, right, kind, histogram.hashes[candidates])
    records = left.records + right.records
    unit = (left.total + right.total) / records if records else 1.0
    load = histogram.tracked.weights[candidates]
    output_load = np.minimum(output_cost * unit * emitted, load)
    read = load - output_load
    left_load = read * left_rows / np.maximum(left_rows + right_rows, np.finfo(float).tiny)
    return HotKeys(left_rows, right_rows, left_load, read - left_load, output_load)


def _placed(
    kind: JoinType,
    histogram: Histogram,
    candidates: NDArray[np.int64],
    hot: HotKeys,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    slots: int,
    everywhere: float,
) -> SplitPlan:
    """The plan with these grids: cells and whole keys are placed heaviest first, then the buckets."""
    tracked = histogram.tracked.weights
    cells = np.ones(len(tracked), np.int64)
    cells[candidates] = rows * columns
    weights = tracked.copy()
    weights[candidates] = hot.cell_loads(rows, columns)
    split = cells > 1
    own_row = split | (tracked > _OWN_ROW * histogram.total / slots)
    items = np.flatnonzero(own_row)
    placed, loads = place(weights[items], cells[items], np.full(slots, everywhere))
    item_of_cell = np.repeat(items, cells[items])
    bucket_loads = histogram.rest.weights + sum_by(
        histogram.key_buckets[~own_row], tracked[~own_row], histogram.buckets
    )
    buckets, loads = place(bucket_loads, np.ones(histogram.buckets, np.int64), loads)
    # the load of these is unknown: every slot gets as many of them
    empty = np.flatnonzero(bucket_loads == 0)
    buckets[empty] = np.arange(len(empty)) % slots
    whole = items[~split[items]]
    table = RoutingTable.build(
        slots,
        buckets,
        histogram.keys.take(pa.array(whole)),
        placed[~split[item_of_cell]],
        key_type=histogram.key_type,
        hashes=histogram.hashes[whole],
        version=1,
    )
    has_grid = rows * columns > 1
    gridded = candidates[has_grid]
    return SplitPlan(
        kind,
        table,
        histogram.keys.take(pa.array(gridded)),
        histogram.hashes[gridded],
        rows[has_grid],
        columns[has_grid],
        placed[split[item_of_cell]],
        loads,
        copied=(float(hot.left_rows @ (columns - 1)), float(hot.right_rows @ (rows - 1))),
    )
