"""Random routing tables and histograms over few keys and buckets, so that all of them interact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from unskew.core.histogram import Histogram
from unskew.core.routing import RoutingTable

BUCKETS = 6
NAMES = [f"key{i}" for i in range(12)]

Draw = Any


@dataclass(frozen=True)
class Drawn:
    """What a table is built from, for tests that must not rely on the table itself."""

    slots: int
    cells: list[int]
    rows: dict[str, list[int]]

    def table(self) -> RoutingTable:
        """The table."""
        return RoutingTable.build(
            self.slots, self.cells, list(self.rows), list(self.rows.values()), key_type=pa.string()
        )


@st.composite
def drawn(draw: Draw, *, split: bool = True) -> Drawn:
    """A table of `BUCKETS` buckets; with `split`, rows may name several slots or one slot several times."""
    n = draw(st.integers(1, BUCKETS))
    slot = st.integers(0, n - 1)
    row = st.lists(slot, min_size=1, max_size=5) if split else slot.map(lambda s: [s])
    rows = draw(st.dictionaries(st.sampled_from(NAMES), row, max_size=8))
    cells = draw(st.lists(slot, min_size=BUCKETS, max_size=BUCKETS))
    return Drawn(n, cells, rows)


def tables(*, split: bool = True) -> st.SearchStrategy[RoutingTable]:
    """The tables of `drawn`."""
    return drawn(split=split).map(Drawn.table)


@st.composite
def histograms(draw: Draw, *, capacity: int | None = None) -> Histogram:
    """Whole-numbered counts, weights and state of some of the keys, not all of them tracked."""
    number = st.integers(0, 100)
    figures = draw(st.dictionaries(st.sampled_from(NAMES), st.tuples(number, number, number), max_size=12))
    tracked = draw(st.integers(0, 12)) if capacity is None else capacity
    columns: list[list[float]] = [[float(row[i]) for row in figures.values()] for i in range(3)]
    return Histogram.from_arrays(
        list(figures),
        columns[0],
        weights=columns[1],
        state=columns[2],
        buckets=BUCKETS,
        capacity=tracked,
        key_type=pa.string(),
    )


def entries_moved(table: RoutingTable, goal: RoutingTable) -> int:
    """The number of entries whose slot differs."""
    heavy = np.union1d(table.hashes, goal.hashes)
    keys = table.slot_of_hashes(heavy) != goal.slot_of_hashes(heavy)
    return int(keys.sum() + (table.buckets != goal.buckets).sum())
