"""Chained operators planned together: keys that occur together are put on one executor."""

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
from unskew.streaming.driver.controller import Controller, Goal
from unskew.streaming.storage.ledger import Ledger, LedgerError, Report

Executors: TypeAlias = list[NDArray[np.int64]]
"""The executor of every slot, for each operator."""

DECAY = 0.5
"""What remains of the pairs counted so far after each re-plan: correlations change."""

UNEVEN = 1.05
"""Tables whose fullest slot has this many times what it could have are changed for balance alone."""


@dataclass
class JointPlanner:
    """Re-plans the tables of chained operators every few batches; `options` are those of chain planning.

    Where the slots run is what they report: Spark keeps a slot on the executor that has its state. A plan also fits
    what is chance in the pairs it was made from, so it is judged by those of the last batch, which it was not made
    from: state moves only if what that gains is worth it.
    """

    every: int = 10
    options: Mapping[str, Any] = field(default_factory=dict)
    pairs: list[PairHistogram] = field(default_factory=list)

    def __post_init__(self) -> None:
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"every is a whole number of batches, at least 1, not {self.every!r}")

    def decide(
        self, controllers: Sequence[Controller], turns: Sequence[Turn], reports: Sequence[Sequence[Report]]
    ) -> list[Goal] | None:
        """What each operator shall do after a batch; None where each had better decide alone."""
        batch = turns[0].batch
        ledgers = [controller.ledger for controller in controllers[1:]]
        if not self.pairs:
            self._read_back(ledgers, batch)
        latest = _counted_pairs(ledgers, batch)
        tables = [
            turn.close([report.ack for report in operator_reports]).table
            for turn, operator_reports in zip(turns, reports, strict=True)
        ]
        executors = _executors([turn.table for turn in turns], reports)
        if executors is None or not latest:
            return None
        servers = 1 + max(int(numbers.max()) for numbers in executors)
        locality = expected_locality([turn.table for turn in turns], latest, servers, executors)
        obstacle = self._obstacle(controllers, turns, tables)
        if obstacle:
            goals = _stay(tables, obstacle, locality)
        else:
            goals = self._replan(controllers, tables, latest, servers, executors, locality)
        self._add(latest)
        for ledger in ledgers:
            ledger.forget_pairs(batch - 2 * self.every)
        return goals

    def _replan(
        self,
        controllers: Sequence[Controller],
        tables: Sequence[RoutingTable],
        latest: Sequence[PairHistogram],
        servers: int,
        executors: Executors,
        locality: float,
    ) -> list[Goal]:
        histograms = [
            merge_all(histogram for _, histogram, _ in controller.recent) for controller in controllers
        ]

        def planned(pairs: Sequence[PairHistogram]) -> ChainTables:
            return plan_chain_tables(
                histograms, pairs, servers, previous=tables, server_of_slot=executors, **self.options
            )

        chain = planned(self.pairs)
        gain = expected_locality(chain.tables, latest, servers, executors) - locality
        self.pairs = [histogram.decayed(DECAY) for histogram in self.pairs]
        if chain.chosen != "kept" and gain > self.options.get("worth", 0.1) * chain.moved:
            reason = (
                f"{locality + gain:.0%} of the records will stay on their executor instead of {locality:.0%}"
            )
            return _go(chain, tables, reason, locality)
        balanced = planned([histogram.reset() for histogram in self.pairs])
        now = [
            imbalance(slot_loads(table, histogram))
            for table, histogram in zip(tables, histograms, strict=True)
        ]
        if max(np.array(now) / np.array(balanced.imbalance)) > UNEVEN:
            reason = "for balance: no more records would stay on their executor"
            return _go(balanced, tables, reason, locality)
        reason = f"{locality:.0%} of the records stay on their executor: moving keys would not pay"
        return _stay(tables, reason, locality)

    def _obstacle(
        self, controllers: Sequence[Controller], turns: Sequence[Turn], tables: Sequence[RoutingTable]
    ) -> str:
        """Why the tables are not re-planned after this batch; empty if they are."""
        if (turns[0].batch + 1) % self.every:
            return f"the tables are re-planned every {self.every} batches"
        if any(turn.target is not None for turn in turns):
            return "state is on its way"
        if not self.pairs or not all(controller.recent for controller in controllers):
            return "nothing has been measured yet"
        if any(turn.table.slots != table.slots for turn, table in zip(turns, tables, strict=True)):
            return "the number of slots changes"
        return ""

    def _read_back(self, ledgers: Sequence[Ledger], batch: int) -> None:
        """Count what an earlier driver counted."""
        for earlier in range(max(0, batch - self.every), batch):
            self._add(_counted_pairs(ledgers, earlier))

    def _add(self, pairs: Sequence[PairHistogram]) -> None:
        if not self.pairs:
            self.pairs = list(pairs)
        elif pairs:
            self.pairs = [total.merge(latest) for total, latest in zip(self.pairs, pairs, strict=True)]


def _counted_pairs(ledgers: Sequence[Ledger], batch: int) -> list[PairHistogram]:
    """The pairs before each operator that the tasks of a batch counted; empty if a file is lost or damaged.

    They are only figures: without them the tables are re-planned later.
    """
    histograms = []
    for ledger in ledgers:
        with contextlib.suppress(LedgerError):
            total: PairHistogram | None = None
            for part in ledger.pairs(batch):
                total = part if total is None else total.merge(part)
            if total is not None and total.total:
                histograms.append(total)
    return histograms if len(histograms) == len(ledgers) else []


def _go(chain: ChainTables, tables: Sequence[RoutingTable], reason: str, locality: float) -> list[Goal]:
    reason = f"{reason}; {chain.moved:.1%} of the state moves"
    changes = [not new.same_routes(old) for new, old in zip(chain.tables, tables, strict=True)]
    return [
        Goal(
            table if changes_routes else None,
            Decision(changes_routes, reason),
            {"locality": round(locality, 4)},
        )
        for table, changes_routes in zip(chain.tables, changes, strict=True)
    ]


def _stay(tables: Sequence[RoutingTable], reason: str, locality: float) -> list[Goal]:
    return [Goal(None, Decision(False, reason), {"locality": round(locality, 4)}) for _ in tables]


def _executors(tables: Sequence[RoutingTable], reports: Sequence[Sequence[Report]]) -> Executors | None:
    """The executor of every slot, by number; None if an executor has no slot of some operator."""
    by_slot = [
        {report.ack.slot: report.figures["executor"] for report in operator_reports}
        for operator_reports in reports
    ]
    names = sorted({name for executors in by_slot for name in executors.values()})
    numbers = []
    for table, executors in zip(tables, by_slot, strict=True):
        if not set(range(table.slots)) <= set(executors):
            return None
        of_slot = np.array([names.index(executors[slot]) for slot in range(table.slots)])
        if len(np.unique(of_slot)) < len(names):
            return None
        numbers.append(of_slot)
    return numbers
