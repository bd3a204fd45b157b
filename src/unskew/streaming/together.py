"""Operators in a row, planned together: keys that come together are put on one executor."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.core.chain import Chain, local_shares
from unskew.core.history import merge_all
from unskew.core.locality import plan_chain
from unskew.core.pairs import PairHistogram
from unskew.core.policy import Decision
from unskew.core.protocol import Turn
from unskew.core.routing import RoutingTable
from unskew.streaming.controller import Controller, Wanted
from unskew.streaming.ledger import LedgerError, Report

Placement: TypeAlias = list[NDArray[np.int64]]

KEPT = 0.5
"""What remains of the pairs counted so far whenever the tables were thought over: correlations change."""


@dataclass
class Together:
    """Thinks the tables over every few batches; `options` are those of `plan_chain`.

    Where the slots run is what they report: Spark keeps a slot on the executor that has its state.
    """

    every: int = 10
    options: Mapping[str, Any] = field(default_factory=dict)
    pairs: dict[int, PairHistogram] = field(default_factory=dict)
    waited: int = 0

    def decide(
        self, controllers: Sequence[Controller], turns: Sequence[Turn], heard: Sequence[Sequence[Report]]
    ) -> list[Wanted]:
        """What each operator shall do after a batch."""
        self._count(controllers, turns[0].batch)
        self.waited += 1
        tables = [turn.close([r.ack for r in said]).table for turn, said in zip(turns, heard, strict=True)]
        placed = _placed(tables, heard)
        why = self._not_now(controllers, turns, placed)
        if why:
            return self._staying(tables, placed, why)
        assert placed is not None
        self.waited = 0
        histograms = [merge_all(h for _, h, _ in c.recent) for c in controllers]
        pairs = [_scaled(self.pairs[i], histograms[i].total) for i in range(1, len(controllers))]
        chain = plan_chain(
            histograms,
            pairs,
            1 + max(int(of.max()) for of in placed),
            previous=tables,
            placed=placed,
            **self.options,
        )
        self.pairs = {i: counted.decayed(KEPT) for i, counted in self.pairs.items()}
        return _going(chain, tables, local_shares(tables, pairs, placed=placed))

    def _count(self, controllers: Sequence[Controller], batch: int) -> None:
        """Add what the tasks of the batch saw; a damaged file costs a figure, nothing more."""
        for i, controller in enumerate(controllers[1:], 1):
            with contextlib.suppress(LedgerError):
                for seen in controller.ledger.pairs(batch):
                    self.pairs[i] = self.pairs[i].merge(seen) if i in self.pairs else seen

    def _not_now(
        self, controllers: Sequence[Controller], turns: Sequence[Turn], placed: Placement | None
    ) -> str:
        """Why the tables are not thought over after this batch; empty if they are."""
        if self.waited < self.every:
            return f"the tables are thought over every {self.every} batches"
        if any(turn.target is not None for turn in turns):
            return "state is on its way"
        if not all(controller.recent for controller in controllers) or len(self.pairs) < len(turns) - 1:
            return "nothing was measured yet"
        if placed is None:
            return "an executor has no slot of one of the operators"
        return ""

    def _staying(self, tables: Sequence[RoutingTable], placed: Placement | None, why: str) -> list[Wanted]:
        counted = [self.pairs[i] for i in range(1, len(tables)) if i in self.pairs]
        known = placed is not None and len(counted) == len(tables) - 1
        hops = local_shares(tables, counted, placed=placed) if known else ()
        return [Wanted(None, Decision(False, why), _figures(hops)) for _ in tables]


def _going(chain: Chain, tables: Sequence[RoutingTable], before: Sequence[float]) -> list[Wanted]:
    if chain.chosen == "kept":
        why = f"{_text(before)} of the records stay on their executor: moving keys would not pay"
        return [Wanted(None, Decision(False, why), _figures(before)) for _ in tables]
    why = (
        f"{_text(chain.hops)} of the records will stay on their executor instead of {_text(before)}, for "
        f"{chain.moved:.1%} of the state moved"
    )
    return [
        Wanted(None if new.same_routes(old) else new, Decision(True, why), _figures(before))
        for old, new in zip(tables, chain.tables, strict=True)
    ]


def _figures(hops: Sequence[float]) -> dict[str, Any]:
    return {"locality": [round(share, 4) for share in hops]} if hops else {}


def _text(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)


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


def _scaled(pairs: PairHistogram, total: float) -> PairHistogram:
    """The pairs as if they had been counted over as many records as the histograms were."""
    up = total / pairs.total if pairs.total else 1.0
    return replace(pairs, counts=pairs.counts * up, errors=pairs.errors * up, total=total)
