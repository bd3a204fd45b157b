"""Planning strategies on successive windows of (key, key) records, as in section 4.3."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.chains.locality import plan_chain_tables
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.tables import ChainTables, hashed_chain
from unskew.core.hashing import Keys
from unskew.core.histogram import Histogram
from unskew.core.loads import imbalance, slot_loads
from unskew.core.routing import RoutingTable

HASH, OFFLINE, ONLINE, OURS, ORACLE = "hash", "offline", "online", "ours", "oracle"
FADE, WORTH = 0.5, 0.1
"""Where ours differs from the paper's online planning: each window counts half as much as the one after it, and
moving all state must make at least a tenth of the records local."""

Tables = Sequence[RoutingTable]


@dataclass(frozen=True, eq=False)
class Window:
    """The histograms and pairs of two operators in one window."""

    histograms: tuple[Histogram, Histogram]
    pairs: PairHistogram

    @classmethod
    def of(cls, first: Keys, second: Keys) -> Window:
        """From the two keys of each record."""
        sides = Histogram.from_keys(first), Histogram.from_keys(second)
        return cls(sides, PairHistogram.from_pairs(first, second))

    @property
    def key_types(self) -> tuple[pa.DataType, pa.DataType]:
        """The types of both operators' keys."""
        return self.pairs.key_types

    def plan(self, servers: int, previous: Tables | None = None, worth: float = 0.0) -> ChainTables:
        """Tables for this window; by default movement is free, as in the paper."""
        return plan_chain_tables(self.histograms, [self.pairs], servers, previous=previous, worth=worth)

    def fading_into(self, newer: Window) -> Window:
        """Both windows in one, with this one counting less."""
        first, second = (
            old.decayed(FADE).merge(new) for old, new in zip(self.histograms, newer.histograms, strict=True)
        )
        return Window((first, second), self.pairs.decayed(FADE).merge(newer.pairs))

    def locality(self, tables: Tables, among: NDArray[np.bool_] | None = None) -> float:
        """The share of the records that stay on their server, among all pairs or those in `among`."""
        a, b = (
            table.slot_of_hashes(hashes)
            for table, hashes in zip(tables, (self.pairs.hashes_a, self.pairs.hashes_b), strict=True)
        )
        records = self.pairs.counts if among is None else self.pairs.counts * among
        return float(records @ (a == b) / max(records.sum(), 1.0))

    def imbalance(self, tables: Tables) -> float:
        """Max/mean load of the operator that is less even."""
        operators = zip(tables, self.histograms, strict=True)
        return max(imbalance(slot_loads(table, histogram)) for table, histogram in operators)

    def known_from(self, before: Window) -> NDArray[np.bool_]:
        """The pairs whose two keys both occurred in the window before."""
        return np.isin(self.pairs.hashes_a, before.pairs.hashes_a) & np.isin(
            self.pairs.hashes_b, before.pairs.hashes_b
        )


def compare_strategies(windows: Iterable[Window], servers: int) -> list[dict[str, Any]]:
    """Route each window by the tables that every strategy has planned from the windows before it.

    `HASH` never plans; `OFFLINE` plans once, after the first window; `ONLINE` plans after every window, as in the
    paper; so does `OURS`, with fading statistics and a price on movement. `ORACLE` plans each window from the
    window itself. Every row has the `locality` and `imbalance` of a window under each strategy; under `seen`, the
    locality of the online plans and of the oracle on pairs whose keys the window before had; and, of the plan that
    `ONLINE` makes after the window, the locality it `expects`, its imbalance (`balanced`) and the state `moved`.
    """
    rows: list[dict[str, Any]] = []
    tables: dict[str, Tables] = {}
    before = faded = None
    for window in windows:
        if before is None or faded is None:
            hashed = hashed_chain(window.key_types, servers)
            tables = dict.fromkeys((HASH, OFFLINE, ONLINE, OURS), hashed)
        row = _measure(window, before, {**tables, ORACLE: window.plan(servers).tables})
        faded = window if faded is None else faded.fading_into(window)
        first = before is None
        online = window.plan(servers, None if first else tables[ONLINE])
        ours = online if first else faded.plan(servers, tables[OURS], WORTH)
        tables |= {ONLINE: online.tables, OURS: ours.tables}
        if first:
            tables[OFFLINE] = online.tables
        row["expects"] = online.locality
        row["balanced"] = max(online.server_imbalance)
        row["moved"] = {ONLINE: online.moved, OURS: ours.moved}
        rows.append(row)
        before = window
    return rows


def _measure(window: Window, before: Window | None, tables: dict[str, Tables]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "locality": {strategy: window.locality(chain) for strategy, chain in tables.items()},
        "imbalance": {strategy: window.imbalance(chain) for strategy, chain in tables.items()},
    }
    if before is not None:
        known = window.known_from(before)
        row["seen"] = {name: window.locality(tables[name], known) for name in (ONLINE, OURS, ORACLE)}
        row["known"] = float(window.pairs.counts @ known / window.pairs.total)
    return row


def kept_of_oracle(rows: Sequence[dict[str, Any]], name: str = ONLINE) -> float:
    """The share of the oracle's locality that a strategy keeps on keys it has seen, over all windows but the first."""
    localities = [row["seen"] for row in rows if "seen" in row]
    return float(np.mean([locality[name] / locality[ORACLE] for locality in localities]))
