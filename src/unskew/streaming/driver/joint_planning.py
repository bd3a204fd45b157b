"""Operators in a row, planned together: keys that come together are put on one executor."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.core.chains.locality import plan_chain_tables
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.tables import ChainTables, expected_locality
from unskew.core.history import merge_all
from unskew.core.loads import imbalance, slot_loads
from unskew.core.migration.policy import Decision
from unskew.core.migration.protocol import Turn
from unskew.core.routing import RoutingTable
from unskew.streaming.driver.controller import Controller, Wanted
from unskew.streaming.storage.ledger import Ledger, LedgerError, Report

Placement: TypeAlias = list[NDArray[np.int64]]

KEPT = 0.5
"""What remains of the pairs counted so far whenever the tables were thought over: correlations change."""

UNEVEN = 1.05
"""Tables whose fullest slot has this many times what it could have are changed for balance alone."""


@dataclass
class Together:
    """Thinks the tables over every few batches; `options` are those of `plan_chain_tables`.

    Where the slots run is what they report: Spark keeps a slot on the executor that has its state. Tables fit also what
    is chance in the pairs they are planned with, so they are judged by those of the last batch, which they are not:
    state moves only if what that gains is worth it.
    """

    every: int = 10
    options: Mapping[str, Any] = field(default_factory=dict)
    pairs: list[PairHistogram] = field(default_factory=list)

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every is a whole number of batches, at least 1, not {self.every!r}")

    def decide(
        self, controllers: Sequence[Controller], turns: Sequence[Turn], heard: Sequence[Sequence[Report]]
    ) -> list[Wanted] | None:
        """What each operator shall do after a batch; None where each had better decide by itself."""
        batch = turns[0].batch
        ledgers = [controller.ledger for controller in controllers[1:]]
        if not self.pairs:
            self._read_back(ledgers, batch)
        fresh = _counted(ledgers, batch)
        tables = [turn.close([r.ack for r in said]).table for turn, said in zip(turns, heard, strict=True)]
        placed = _placed([turn.table for turn in turns], heard)
        if placed is None or not fresh:
            return None
        servers = 1 + max(int(of.max()) for of in placed)
        now = expected_locality([turn.table for turn in turns], fresh, servers, placed)
        why = self._not_now(controllers, turns, tables)
        if why:
            found = _staying(tables, why, now)
        else:
            found = self._thought_over(controllers, tables, fresh, servers, placed, now)
        self._add(fresh)
        for ledger in ledgers:
            ledger.forget_pairs(batch - 2 * self.every)
        return found

    def _thought_over(
        self,
        controllers: Sequence[Controller],
        tables: Sequence[RoutingTable],
        fresh: Sequence[PairHistogram],
        servers: int,
        placed: Placement,
        now: float,
    ) -> list[Wanted]:
        histograms = [merge_all(h for _, h, _ in c.recent) for c in controllers]

        def planned(pairs: Sequence[PairHistogram]) -> ChainTables:
            return plan_chain_tables(
                histograms, pairs, servers, previous=tables, server_of_slot=placed, **self.options
            )

        chain = planned(self.pairs)
        gain = expected_locality(chain.tables, fresh, servers, placed) - now
        self.pairs = [counted.decayed(KEPT) for counted in self.pairs]
        if chain.chosen != "kept" and gain > self.options.get("worth", 0.1) * chain.moved:
            why = f"{now + gain:.0%} of the records will stay on their executor instead of {now:.0%}"
            return _going(chain, tables, why, now)
        even = planned([counted.reset() for counted in self.pairs])
        full = [imbalance(slot_loads(table, h)) for table, h in zip(tables, histograms, strict=True)]
        if max(np.array(full) / np.array(even.imbalance)) > UNEVEN:
            return _going(even, tables, "for balance: no more records would stay on their executor", now)
        return _staying(
            tables, f"{now:.0%} of the records stay on their executor: moving keys would not pay", now
        )

    def _not_now(
        self, controllers: Sequence[Controller], turns: Sequence[Turn], tables: Sequence[RoutingTable]
    ) -> str:
        """Why the tables are not thought over after this batch; empty if they are."""
        if (turns[0].batch + 1) % self.every:
            return f"the tables are thought over every {self.every} batches"
        if any(turn.target is not None for turn in turns):
            return "state is on its way"
        if not self.pairs or not all(controller.recent for controller in controllers):
            return "nothing was measured yet"
        if any(turn.table.slots != table.slots for turn, table in zip(turns, tables, strict=True)):
            return "the number of slots changes"
        return ""

    def _read_back(self, ledgers: Sequence[Ledger], batch: int) -> None:
        """Count what an earlier driver counted."""
        for earlier in range(max(0, batch - self.every), batch):
            self._add(_counted(ledgers, earlier))

    def _add(self, seen: Sequence[PairHistogram]) -> None:
        if not self.pairs:
            self.pairs = list(seen)
        elif seen:
            self.pairs = [one.merge(other) for one, other in zip(self.pairs, seen, strict=True)]


def _counted(ledgers: Sequence[Ledger], batch: int) -> list[PairHistogram]:
    """The pairs before each operator that the tasks of a batch saw; none where a file is lost or damaged.

    They are figures only: without them the tables are thought over later.
    """
    found = []
    for ledger in ledgers:
        with contextlib.suppress(LedgerError):
            whole: PairHistogram | None = None
            for part in ledger.pairs(batch):
                whole = part if whole is None else whole.merge(part)
            if whole is not None and whole.total:
                found.append(whole)
    return found if len(found) == len(ledgers) else []


def _going(chain: ChainTables, tables: Sequence[RoutingTable], why: str, now: float) -> list[Wanted]:
    told = f"{why}; {chain.moved:.1%} of the state moves"
    changed = [not new.same_routes(old) for new, old in zip(chain.tables, tables, strict=True)]
    return [
        Wanted(table if moves else None, Decision(moves, told), {"locality": round(now, 4)})
        for table, moves in zip(chain.tables, changed, strict=True)
    ]


def _staying(tables: Sequence[RoutingTable], why: str, now: float) -> list[Wanted]:
    return [Wanted(None, Decision(False, why), {"locality": round(now, 4)}) for _ in tables]


def _placed(tables: Sequence[RoutingTable], heard: Sequence[Sequence[Report]]) -> Placement | None:
    """The executor of every slot, by number; None where one has no slot of some operator."""
    names = [{r.ack.slot: r.figures["executor"] for r in said} for said in heard]
    everywhere = sorted({name for known in names for name in known.values()})
    found = []
    for table, known in zip(tables, names, strict=True):
        if not set(range(table.slots)) <= set(known):
            return None
        of = np.array([everywhere.index(known[slot]) for slot in range(table.slots)])
        if len(np.unique(of)) < len(everywhere):
            return None
        found.append(of)
    return found
