"""One window of (key, key) records after the other, routed by each way to plan, as in section 4.3."""

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
"""Where ours differs from the paper's online planning: a window counts half as much as the next newer one, and
moving all state must gain a tenth of the records."""

Tables = Sequence[RoutingTable]


@dataclass(frozen=True, eq=False)
class Window:
    """What was measured of the two operators in a window."""

    histograms: tuple[Histogram, Histogram]
    pairs: PairHistogram

    @classmethod
    def of(cls, first: Keys, second: Keys) -> Window:
        """From one row a record."""
        sides = Histogram.from_keys(first), Histogram.from_keys(second)
        return cls(sides, PairHistogram.from_pairs(first, second))

    @property
    def key_types(self) -> tuple[pa.DataType, pa.DataType]:
        """The types of both operators' keys."""
        return self.pairs.key_types

    def plan(self, servers: int, previous: Tables | None = None, worth: float = 0.0) -> ChainTables:
        """Tables for this window; as in the paper, movement is free."""
        return plan_chain_tables(self.histograms, [self.pairs], servers, previous=previous, worth=worth)

    def fading_into(self, newer: Window) -> Window:
        """Both, this one counting less."""
        one, two = (
            old.decayed(FADE).merge(new) for old, new in zip(self.histograms, newer.histograms, strict=True)
        )
        return Window((one, two), self.pairs.decayed(FADE).merge(newer.pairs))

    def locality(self, tables: Tables, among: NDArray[np.bool_] | None = None) -> float:
        """The share of the records that stay on their server, of all or `among` some pairs."""
        a, b = (
            table.slot_of_hashes(hashes)
            for table, hashes in zip(tables, (self.pairs.hashes_a, self.pairs.hashes_b), strict=True)
        )
        records = self.pairs.counts if among is None else self.pairs.counts * among
        return float(records @ (a == b) / max(records.sum(), 1.0))

    def imbalance(self, tables: Tables) -> float:
        """Max/mean load of the operator that is less even."""
        each = zip(tables, self.histograms, strict=True)
        return max(imbalance(slot_loads(table, histogram)) for table, histogram in each)

    def seen_in(self, before: Window) -> NDArray[np.bool_]:
        """The pairs whose two keys both occurred in the window before."""
        return np.isin(self.pairs.hashes_a, before.pairs.hashes_a) & np.isin(
            self.pairs.hashes_b, before.pairs.hashes_b
        )


def follow(windows: Iterable[Window], servers: int) -> list[dict[str, Any]]:
    """What happens to each window under the tables that the windows before it led to.

    `HASH` never plans, `OFFLINE` once, after the first window, `ONLINE` after every one as in the paper; so does
    `OURS`, with statistics that fade and a price on movement. `ORACLE` plans each window with the window itself.
    Every window has the `locality` and `imbalance` under each of them; then, on pairs of keys that were `seen` in
    the window before, the locality of the online plans and of the oracle; and of the plan that the online one makes
    after it what it `expects`, its imbalance and what it moves.
    """
    found: list[dict[str, Any]] = []
    tables: dict[str, Tables] = {}
    before = faded = None
    for window in windows:
        if before is None or faded is None:
            hashed = hashed_chain(window.key_types, servers)
            tables = dict.fromkeys((HASH, OFFLINE, ONLINE, OURS), hashed)
        row = _judged(window, before, {**tables, ORACLE: window.plan(servers).tables})
        faded = window if faded is None else faded.fading_into(window)
        first = before is None
        new = window.plan(servers, None if first else tables[ONLINE])
        kept = new if first else faded.plan(servers, tables[OURS], WORTH)
        tables |= {ONLINE: new.tables, OURS: kept.tables}
        if first:
            tables[OFFLINE] = new.tables
        row["expects"] = new.locality
        row["balanced"] = max(new.server_imbalance)
        row["moved"] = {ONLINE: new.moved, OURS: kept.moved}
        found.append(row)
        before = window
    return found


def _judged(window: Window, before: Window | None, tables: dict[str, Tables]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "locality": {name: window.locality(each) for name, each in tables.items()},
        "imbalance": {name: window.imbalance(each) for name, each in tables.items()},
    }
    if before is not None:
        seen = window.seen_in(before)
        row["seen"] = {name: window.locality(tables[name], seen) for name in (ONLINE, OURS, ORACLE)}
        row["known"] = float(window.pairs.counts @ seen / window.pairs.total)
    return row


def kept_of_oracle(rows: Sequence[dict[str, Any]], name: str = ONLINE) -> float:
    """The locality that a way to plan keeps of the oracle's on keys it has seen, over all windows but the first."""
    seen = [row["seen"] for row in rows if "seen" in row]
    return float(np.mean([each[name] / each[ORACLE] for each in seen]))
