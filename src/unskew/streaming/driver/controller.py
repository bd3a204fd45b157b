"""After each batch: what the slots of an operator reported, what to do about it, and the next turn."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.core.histogram import Histogram, Measures
from unskew.core.history import merge_all
from unskew.core.loads import imbalance, lower_bound, migration, slot_loads
from unskew.core.migration.budget import Budget
from unskew.core.migration.policy import Costs, Decision, Policy
from unskew.core.migration.protocol import Turn
from unskew.core.migration.scaling import Scaling, Usage
from unskew.core.plan import make_table
from unskew.core.planners import planner_named
from unskew.core.routing import RoutingTable
from unskew.streaming.failpoints import failpoint
from unskew.streaming.operators.operator import RECORDS
from unskew.streaming.storage.ledger import Ledger, LedgerError, Report
from unskew.streaming.storage.slot_state import HASH
from unskew.streaming.worker.packing import active_slots

TOP_KEYS = 20
"""Heavy keys in a line of the journal."""

SWITCH_SECONDS = 0.005
"""What any switch costs: a few files are written and read."""

NOISE_DEVIATIONS = 1.5
"""Standard deviations of a slot's load that do not count as imbalance: in a small batch even loads look uneven."""

KEY_LENGTH = 200
"""Characters of a key in the journal."""

FIRST_SECONDS_PER_KEY = 3e-6
"""Seconds to move one key's state, until that has been measured on this job."""

RECENT_BATCHES = 8
"""Batches whose histograms are kept in memory."""

REREAD_BATCHES = 3
"""Batches whose reports a new driver reads back: more than a policy's patience is rarely asked for."""


@dataclass(frozen=True)
class Steering:
    """How a live query is steered: the planner and its options, when to switch, how fast, and how many slots."""

    planner: str = "keel"
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy | None = field(default_factory=Policy)
    budget: Budget = field(default_factory=Budget.sudden)
    scaling: Scaling | None = None
    max_slots: int = 1
    operators: int = 1
    remote: bool = False


@dataclass(frozen=True)
class Goal:
    """What joint planning decided for an operator: the table to go to, or None to stay; figures for the journal."""

    table: RoutingTable | None
    decision: Decision
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Controller:
    """One operator: what its slots reported of a batch, what to do about it, and its next turn.

    It is asked again when a batch is replayed. What others must agree on (the next turn) is published once, and the
    first one counts; what it holds in memory (`recent` figures, the `goal` of a migration in steps) may be lost: it is
    read back from the slots' reports, or decided again. No decision reads the journal.
    """

    ledger: Ledger
    key_names: tuple[str, ...]
    key_type: pa.DataType
    buckets: int
    steering: Steering
    recent: deque[tuple[int, Histogram, Usage]] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    goal: RoutingTable | None = None
    seconds_per_key: float = FIRST_SECONDS_PER_KEY

    def open(self, batch: int) -> Turn:
        """The turn of a batch that is about to run."""
        turn = self.ledger.turn(batch)
        self.ledger.forget_reports(batch)  # those of a run of this batch that did not end
        if self.steering.remote:
            self.ledger.write_current(batch)
        return turn

    def has_all_reports(self, turn: Turn) -> bool:
        """Whether every slot was called."""
        return set(active_slots(turn)) <= self.ledger.reported_slots(turn.batch)

    def has_stored_state(self, turn: Turn) -> bool:
        """Whether every partition of the state is stored, which Spark does when a task ends."""
        return self.ledger.has_stored_state(turn.batch, self.steering.max_slots)

    def collect_reports(self, turn: Turn, wall: float) -> Sequence[Report]:
        """What the slots reported, which is also remembered."""
        reports = self.ledger.reports(turn.batch)
        self._remember(turn.batch, reports, wall)
        return reports

    def close(self, turn: Turn, reports: Sequence[Report], wall: float, goal: Goal | None = None) -> None:
        """Publish the next turn and write the journal's line of this one.

        The moves that were made take effect, and new ones may be asked for: those that `goal` says, else what this
        operator decides alone.
        """
        started = time.perf_counter()
        acks = [report.ack for report in reports]
        chosen: dict[str, Any] = {}

        def choose(table: RoutingTable) -> RoutingTable | None:
            target, decision = self._decide(turn, table, goal)
            chosen["decision"] = decision
            return target

        after = turn.close(acks, choose)
        failpoint("planned", turn.batch)
        published = self.ledger.publish(after)
        turn.confirm(published, acks)
        failpoint("published", turn.batch)

        line = self._line(turn, published, reports, chosen.get("decision"))
        line["seconds"] |= {
            "sink": round(wall, 4),
            "controller": round(time.perf_counter() - started, 4),
        }
        self.ledger.write_line({**line, **(goal.figures if goal is not None else {})})
        failpoint("journaled", turn.batch)
        self.ledger.tidy(turn)

    def _remember(self, batch: int, reports: Sequence[Report], wall: float) -> None:
        if not self.recent:
            for earlier in range(max(0, batch - REREAD_BATCHES), batch):
                with contextlib.suppress(LedgerError):  # figures only: what they led to is in the turns
                    self._keep(earlier, self.ledger.reports(earlier), 0.0)
        self._keep(batch, reports, wall)
        moved = sum(e.rows for r in reports for e in r.ack.exported or ())
        if moved >= 1000:
            spent = sum(r.figures["seconds"]["export"] for r in reports)
            self.seconds_per_key = (
                0.5 * self.seconds_per_key + 0.5 * 2 * spent / moved
            )  # an import costs about as much

    def _keep(self, batch: int, reports: Sequence[Report], wall: float) -> None:
        while self.recent and self.recent[-1][0] >= batch:
            self.recent.pop()
        histogram = histogram_of(reports, self.key_names, self.key_type, self.buckets)
        if histogram.total:
            # chained operators share the time of a batch: each may use its part of it
            busy = self.steering.operators * sum(sum(r.figures["seconds"].values()) for r in reports)
            handling = sum(r.figures["seconds"]["handle"] for r in reports)
            self.recent.append((batch, histogram, Usage(histogram.total, busy, wall, handling)))

    def _decide(
        self, turn: Turn, table: RoutingTable, joint_goal: Goal | None
    ) -> tuple[RoutingTable | None, Decision]:
        steering = self.steering
        slots = self._wanted_slots(table)
        if slots != table.slots and self.recent:
            self.goal = self._planned(table, slots)
            return self._step(table, self.goal), Decision(True, f"{slots} slots instead of {table.slots}")
        if self.goal is not None and not self.goal.same_routes(table):
            return self._step(table, self.goal), Decision(True, "on the way to the table decided on before")
        self.goal = None
        if joint_goal is not None:
            self.goal = joint_goal.table
            target = None if joint_goal.table is None else self._step(table, joint_goal.table)
            return target, joint_goal.decision
        if steering.policy is None:
            return None, Decision(False, "the table is fixed")
        if not self.recent:
            return None, Decision(False, "nothing was measured yet")
        candidate = self._planned(table, table.slots)
        recent = [histogram for _, histogram, _ in self.recent][-steering.policy.patience :]
        noise = NOISE_DEVIATIONS * float(np.sqrt(table.slots / recent[-1].total))
        policy = replace(steering.policy, tolerance=max(steering.policy.tolerance, noise))
        decision = policy.decide(
            table, candidate, recent, self._costs(), windows_since_switch=self._since_switch(turn)
        )
        if not decision.switch:
            return None, decision
        self.goal = candidate
        return self._step(table, candidate), decision

    def _planned(self, table: RoutingTable, slots: int) -> RoutingTable:
        windows = [histogram for _, histogram, _ in self.recent]
        context = planner_named(self.steering.planner).context_options(windows=windows)
        options = {**context, **self.steering.options}
        return make_table(self.steering.planner, windows[-1], slots, table, **options)

    def _step(self, table: RoutingTable, goal: RoutingTable) -> RoutingTable:
        newest = self.recent[-1][1] if self.recent else None
        return self.steering.budget.step(table, goal, newest).with_version(table.version + 1)

    def _wanted_slots(self, table: RoutingTable) -> int:
        wish = self.ledger.wish()
        if wish is not None:
            return min(wish, self.steering.max_slots)
        if self.steering.scaling is None:
            return self.goal.slots if self.goal is not None else table.slots
        usage = [u for _, _, u in self.recent]
        return self.steering.scaling.slots(table.slots, self.steering.max_slots, usage)

    def _costs(self) -> Costs:
        usage = [u for _, _, u in self.recent]
        records = sum(u.records for u in usage)
        return Costs(sum(u.handling for u in usage) / max(records, 1.0), self.seconds_per_key, SWITCH_SECONDS)

    def _since_switch(self, turn: Turn) -> int | None:
        """Windows since the table last changed; None if it never did."""
        if turn.target is not None:
            return 0
        return turn.batch - turn.since + 1 if turn.since else None

    def _line(
        self, turn: Turn, after: Turn, reports: Sequence[Report], decision: Decision | None
    ) -> dict[str, Any]:
        """What happened in a batch, as one line of the journal."""
        histogram = histogram_of(reports, self.key_names, self.key_type, self.buckets)
        loads = np.zeros(turn.table.slots)
        for report in reports:
            if report.ack.slot < len(loads):
                loads[report.ack.slot] = report.figures["records"]
        exported = [e for r in reports for e in r.ack.exported or ()]
        ahead = None if after.target is None else migration(after.table, after.target, histogram)
        laps: dict[str, float] = {}
        for report in reports:
            for name, seconds in report.figures["seconds"].items():
                laps[name] = round(laps.get(name, 0.0) + seconds, 6)
        top = histogram.top(TOP_KEYS)
        hashes = histogram.hashes[:TOP_KEYS]
        slots = turn.table.slot_of_hashes(hashes).tolist()
        return {
            "batch": turn.batch,
            "time": round(time.time(), 3),
            "records": int(loads.sum()),
            "slots": turn.table.slots,
            "version": turn.table.version,
            "heavy": len(turn.table.hashes),
            "loads": loads.astype(int).tolist(),
            "imbalance": round(imbalance(loads), 4) if loads.any() else 1.0,
            "bound": round(lower_bound(histogram, turn.table.slots), 4) if histogram.total else 1.0,
            "planned": round(imbalance(slot_loads(after.target, histogram)), 4)
            if after.target is not None and histogram.total
            else None,
            "late": sum(r.figures["late"] for r in reports),
            "state": {
                "rows": sum(r.figures["state_rows"] for r in reports),
                "bytes": sum(r.figures["state_bytes"] for r in reports),
                "written": sum(r.figures["written"] for r in reports),
                "by_slot": [[r.ack.slot, r.figures["state_rows"]] for r in reports],
                "bytes_by_slot": [[r.ack.slot, r.figures["state_bytes"]] for r in reports],
            },
            "moved": {
                "rows": sum(e.rows for e in exported),
                "bytes": sum(e.size for e in exported),
                "files": len(exported),
                "imported": sum(r.figures["imported"] for r in reports),
            },
            "next": None if ahead is None else {"entries": len(ahead), "state": ahead.state},
            "decision": None
            if decision is None
            else {
                "switch": decision.switch,
                "reason": decision.reason,
                "gain": round(decision.gain, 4),
                "cost": round(decision.cost, 4),
            },
            "top": [[str(k)[:KEY_LENGTH], n, slot] for (k, n), slot in zip(top, slots, strict=True)],
            "top_heavy": (turn.table.rows_of(hashes) >= 0).tolist(),
            "seconds": {"slots": laps, "slowest": _slowest(reports)},
        }


def _slowest(reports: Sequence[Report]) -> float:
    return round(max((sum(r.figures["seconds"].values()) for r in reports), default=0.0), 6)


def histogram_of(
    reports: Sequence[Report], key_names: tuple[str, ...], key_type: pa.DataType, buckets: int
) -> Histogram:
    """The load of a batch out of what the slots reported; a slot has all the records of its keys."""
    parts = [_part(r.loads, key_names, key_type, buckets) for r in reports if len(r.loads)]
    if not parts:
        return Histogram.empty(key_type, buckets=buckets)
    whole = merge_all(parts)
    return whole.trimmed(whole.capacity)  # heaviest first, also where one slot reported


def _part(loads: pa.Table, key_names: tuple[str, ...], key_type: pa.DataType, buckets: int) -> Histogram:
    of_bucket = loads["bucket"].to_numpy()
    heavy, rest = loads.filter(pa.array(~of_bucket)), loads.filter(pa.array(of_bucket))
    columns = [heavy[f"key.{i}"].combine_chunks() for i in range(len(key_names))]
    keys = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, list(key_names))
    records, state = (heavy[c].to_numpy() for c in (RECORDS, "state"))
    whole = {c: np.zeros(buckets) for c in (RECORDS, "state", "distinct")}
    for name, figures in whole.items():
        figures[rest[HASH].to_numpy()] = rest[name].to_numpy()
    hashes = heavy[HASH].to_numpy()
    order = np.argsort(hashes)
    return Histogram(
        keys.cast(key_type).take(pa.array(order)),
        hashes[order],
        Measures(records, records, state)[order],
        Measures(whole[RECORDS], whole[RECORDS], whole["state"]),
        whole["distinct"],
        key_names=key_names,
    )
