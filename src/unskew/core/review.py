"""Is a kept plan still good for the load that was observed, and what does its journal say?

A kept plan is a plan file like any other, with its journal in the first line: one `PlanReview` per run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from unskew.core import files
from unskew.core.histogram import Histogram
from unskew.core.loads import migration, slot_loads
from unskew.core.plan import KIND, Plan
from unskew.core.planners import planner_named
from unskew.core.routing import RoutingTable, check_slots
from unskew.core.scheduling import makespan

Decision: TypeAlias = Literal["made", "kept", "refreshed"]

JOURNAL = 100
"""Reviews that a file holds: a quarter of daily runs, at 300 bytes each."""

FEW = 0.1
"""An action such as `show` may read a part of the rows. Fewer than a tenth of the planned records decide nothing."""

NEARLY = 1.05
"""A new plan that is within 5 % of the most even one is as good, if it moves less."""

STEP, STEPS = 0.2, 3
"""The share of the load that a small step may move, and how many steps are tried."""

_NEWEST = 1  # of Plan's file format


@dataclass(frozen=True)
class PlanReview:
    """What became of a kept plan after a run: it was made, kept or refreshed, when and why.

    `before` is the imbalance of the observed load under the plan that was in force and `after` under the one that is in
    force now: load of the fullest core over the mean, in slot order, as Spark runs them. `moved` is the share of the
    load that changed its slot.
    """

    at: str
    decision: Decision
    reason: str
    version: int
    slots: int
    records: float
    before: float | None
    after: float
    moved: float = 0.0

    def __str__(self) -> str:
        figures = f"{self.slots} slots, {self.records:,.0f} records"
        moved = f", {self.moved:.1%} of the load moved" if self.decision == "refreshed" else ""
        return f"{self.at}  {self.decision}, version {self.version}: {self.reason} ({figures}{moved})"


@dataclass(frozen=True)
class PlanInFile:
    """A plan and its journal, oldest review first."""

    plan: Plan
    journal: tuple[PlanReview, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> PlanInFile:
        """Read what `to_bytes` or `Plan.save` wrote; what no operator can use is refused."""
        meta, _ = files.decode_parts(data, KIND, _NEWEST, name)
        plan = Plan.from_bytes(data, name)
        try:
            check_slots(plan.slots, len(plan.table.buckets))
        except ValueError as error:
            raise files.UnreadableFileError(f"{name}: {error}") from error
        return cls(plan, tuple(PlanReview(**review) for review in meta.get("journal", ())))

    def to_bytes(self) -> bytes:
        """The bytes of a plan file."""
        return self.plan.to_bytes(journal=[asdict(review) for review in self.journal])

    def then(self, plan: Plan, review: PlanReview) -> PlanInFile:
        """The file after one more review."""
        return PlanInFile(plan, (*self.journal, review)[-JOURNAL:])


@dataclass(frozen=True)
class Planning:
    """How plans are made: for how many slots on how many cores, and with which planner."""

    slots: int
    cores: int
    planner: str = "auto"

    def make(self, histogram: Histogram, previous: Plan | None = None, **options: Any) -> Plan:
        """A plan, starting from the previous one."""
        context = planner_named(self.planner).context_options(cores=self.cores)
        return Plan.make(histogram, self.slots, self.planner, previous, **context, **options)

    def make_gently(self, histogram: Histogram, previous: Plan) -> Plan:
        """A plan about as even as the best one that moves little: the last percents may cost half of the load.

        Where one plan would move a lot, a few small steps are tried, each from the table of the one before.
        """
        best = self.make(histogram, previous)
        moves = best.migration.load_share if best.migration is not None else 0.0
        if moves <= STEP or "budget" not in planner_named(self.planner).options:
            return best
        enough = NEARLY * self.imbalance(best.table, histogram)
        step = previous
        for _ in range(STEPS):
            step = self.make(histogram, step, budget=STEP)
            if self.imbalance(step.table, histogram) <= enough:
                table = step.table.with_version(previous.table.version + 1)
                gentle = replace(step, table=table, previous=previous.table, options=best.options)
                moved = migration(previous.table, table, histogram).load_share
                return gentle if moved < moves else best
        return best

    def imbalance(self, table: RoutingTable, histogram: Histogram) -> float:
        """The load of the fullest core over the mean, with slots started in order on the next free core."""
        loads = slot_loads(table, histogram)
        width = min(self.cores, table.slots)
        return makespan(loads, width) * width / histogram.total if histogram.total else 1.0


def first(histogram: Histogram, planning: Planning, reason: str) -> PlanInFile:
    """A plan where there was none."""
    return made(planning.make(histogram), planning, reason)


def made(plan: Plan, planning: Planning, reason: str) -> PlanInFile:
    """The file of a plan that was just made."""
    after = planning.imbalance(plan.table, plan.histogram)
    figures = _figures(plan, plan.histogram, before=None, after=after)
    return PlanInFile(plan).then(plan, PlanReview(decision="made", reason=reason, **figures))


def resized(kept: PlanInFile, planning: Planning) -> PlanInFile:
    """The plan for another number of slots, from the load that the kept one was made from."""
    plan = planning.make(kept.plan.histogram, kept.plan)
    reason = f"slots={planning.slots} was passed, the plan was for {kept.plan.slots}"
    before, after = (planning.imbalance(p.table, plan.histogram) for p in (kept.plan, plan))
    moved = migration(kept.plan.table, plan.table, plan.histogram).load_share
    figures = _figures(plan, plan.histogram, before=before, after=after, moved=moved)
    return kept.then(plan, PlanReview(decision="refreshed", reason=reason, **figures))


def reviewed(kept: PlanInFile, histogram: Histogram, planning: Planning, stale: float) -> PlanInFile:
    """The plan after a run: a new one with little movement if the old one has become stale, else the same.

    It is stale if the observed load is more than `stale` times as uneven under it as under a new plan.
    """
    plan = kept.plan
    histogram = with_key_type(histogram, plan.table.key_type)
    planned = plan.histogram.records
    before = planning.imbalance(plan.table, histogram)
    if histogram.records < FEW * planned or not histogram.total:
        reason = f"{histogram.records:,.0f} records are too few, the plan was made from {planned:,.0f}"
        return _kept(kept, histogram, before, before, reason)
    # another run may have saved a plan for another number of slots
    planning = replace(planning, slots=plan.slots)
    new = planning.make_gently(histogram, plan)
    after = planning.imbalance(new.table, histogram)
    reason = f"imbalance {before:.3f}, a new plan reaches {after:.3f}"
    if before <= stale * after:
        return _kept(kept, histogram, before, before, reason)
    moved = migration(plan.table, new.table, histogram).load_share
    figures = _figures(new, histogram, before=before, after=after, moved=moved)
    return kept.then(new, PlanReview(decision="refreshed", reason=reason, **figures))


def _kept(kept: PlanInFile, histogram: Histogram, before: float, after: float, reason: str) -> PlanInFile:
    figures = _figures(kept.plan, histogram, before=before, after=after)
    return kept.then(kept.plan, PlanReview(decision="kept", reason=reason, **figures))


def _figures(plan: Plan, histogram: Histogram, **more: Any) -> dict[str, Any]:
    return {
        "at": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
        "version": plan.table.version,
        "slots": plan.slots,
        "records": histogram.records,
        **more,
    }


def with_key_type(histogram: Histogram, key_type: pa.DataType) -> Histogram:
    """The histogram with keys of a type that is hashed alike, by their hash alone: columns may have other names."""
    if key_type.equals(histogram.key_type):
        return histogram
    return replace(histogram, keys=pa.nulls(len(histogram.keys), key_type))
