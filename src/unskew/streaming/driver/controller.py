"""After each batch: collect the reports of an operator's slots, decide what to move, publish the next turn."""

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
from unskew.streaming.storage.layout import HASH
from unskew.streaming.storage.ledger import Ledger, LedgerError, Report, StateFile
from unskew.streaming.worker.packing import called_slots

TOP_KEYS = 20
"""Heavy keys in a line of the journal."""

SWITCH_SECONDS = 0.005
"""The fixed cost of a switch: a few files are written and read."""

NOISE_DEVIATIONS = 1.5
"""Standard deviations of a slot's load that do not count as imbalance: in a small batch, even loads look uneven."""

KEY_LENGTH = 200
"""Characters of a key in the journal."""

FIRST_SECONDS_PER_KEY = 3e-6
"""Seconds to move the state of one key, until this job has measured it."""

ROWS_PER_FILE = 1000
"""Keys per handoff from which on its time says what a key costs."""

RECENT_BATCHES = 8
"""Batches whose histograms are kept in memory, or as many as a patience asks for."""

REREAD_BATCHES = 3
"""Batches whose reports a new driver reads back, or as many as a patience asks for."""


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
    """Steers one operator: collects its slots' reports, decides what to move, and publishes its next turn.

    `timed` says that timers call its slots in batches without records, so that every slot needs one.
    It decides again when a batch is replayed. What others must agree on (the next turn) is published once, and the
    first version counts. What it holds in memory (`recent` figures, the `goal` of a migration in steps) may be lost: it
    is read back from the slots' reports, or decided again. No decision depends on the journal. `earlier_state` are the
    files of state that were there before its first batch.
    """

    ledger: Ledger
    key_names: tuple[str, ...]
    key_type: pa.DataType
    buckets: int
    steering: Steering
    timed: bool = False
    recent: deque[tuple[int, Histogram, Usage]] = field(default_factory=deque)
    goal: RoutingTable | None = None
    seconds_per_key: float = FIRST_SECONDS_PER_KEY
    is_replay: bool = False
    earlier_state: frozenset[StateFile] | None = None

    def open(self, batch: int) -> Turn:
        """The turn of a batch that is about to run."""
        turn = self.ledger.turn(batch)
        self.is_replay = self.ledger.find_turn(batch + 1) is not None
        if self.earlier_state is None:
            # a run that was cut off, or taken back, may have stored the state of batches that are to run again
            self.earlier_state = self.ledger.state_files(self.steering.max_slots)
        self.ledger.forget_reports(batch)  # from an earlier run of this batch that did not finish
        if self.steering.remote:
            self.ledger.write_current(batch)
        return turn

    def has_all_reports(self, turn: Turn) -> bool:
        """Whether every slot that the batch must call has reported."""
        slots = called_slots(turn, self.steering.max_slots if self.timed else 0)
        return set(slots) <= self.ledger.reported_slots(turn.batch)

    def has_stored_state(self, turn: Turn) -> bool:
        """Whether this run has stored every partition of the state, which Spark does when a task ends."""
        earlier = self.earlier_state or frozenset()
        return self.ledger.has_stored_state(turn.batch, self.steering.max_slots, earlier)

    def collect_reports(self, turn: Turn, wall: float) -> Sequence[Report]:
        """The reports of the slots; they are also remembered."""
        reports = self.ledger.reports(turn.batch)
        self._remember(turn.batch, reports, wall)
        return reports

    def close(self, turn: Turn, reports: Sequence[Report], wall: float, goal: Goal | None = None) -> None:
        """Publish the next turn and write this turn's line of the journal.

        The moves of this batch take effect, and new ones may be requested: towards `goal`, if joint planning set one,
        else what this operator decides alone.
        """
        started = time.perf_counter()
        acks = [report.ack for report in reports]
        decision: Decision | None = None

        def choose(table: RoutingTable) -> RoutingTable | None:
            nonlocal decision
            target, decision = self._decide(turn, table, goal)
            return target

        next_turn = turn.close(acks, choose)
        failpoint("planned", turn.batch)
        published = self.ledger.publish(next_turn)
        changed = published.difference(next_turn) if self.is_replay else None
        if changed is not None:  # this run's state is what Spark will commit, so this run's turn must count
            published = self.ledger.replace(next_turn)
        turn.confirm(published, acks)
        failpoint("published", turn.batch)

        line = self._line(turn, published, reports, decision)
        if changed is not None:
            line["replay"] = f"computed something else than the first run: {changed}"
        line["seconds"] |= {
            "sink": round(wall, 4),
            "controller": round(time.perf_counter() - started, 4),
        }
        self.ledger.write_line({**line, **(goal.figures if goal is not None else {})})
        failpoint("journaled", turn.batch)
        self.ledger.tidy(turn)

    def _remember(self, batch: int, reports: Sequence[Report], wall: float) -> None:
        if not self.recent:
            for earlier in range(max(0, batch - max(REREAD_BATCHES, self._patience)), batch):
                # these are only figures: what was decided from them is in the turns
                with contextlib.suppress(LedgerError):
                    self._add_recent(earlier, self.ledger.reports(earlier), 0.0)
        self._add_recent(batch, reports, wall)
        exported = [file for report in reports for file in report.ack.exported or ()]
        moved = sum(file.rows for file in exported)
        # of small files most of the time is spent on flushing them, whatever is in them
        if moved and moved >= ROWS_PER_FILE * len(exported):
            spent = sum(r.figures["seconds"]["export"] for r in reports)
            # twice, because an import costs about as much as an export
            self.seconds_per_key = 0.5 * self.seconds_per_key + 0.5 * 2 * spent / moved

    def _add_recent(self, batch: int, reports: Sequence[Report], wall: float) -> None:
        while self.recent and self.recent[-1][0] >= batch:
            self.recent.pop()
        histogram = histogram_of(reports, self.key_names, self.key_type, self.buckets)
        if histogram.total:
            # chained operators share the time of a batch equally
            busy = self.steering.operators * sum(sum(r.figures["seconds"].values()) for r in reports)
            handling = sum(r.figures["seconds"]["handle"] for r in reports)
            self.recent.append((batch, histogram, Usage(histogram.total, busy, wall, handling)))
        while len(self.recent) > max(RECENT_BATCHES, self._patience):
            self.recent.popleft()

    def _histogram(self, batch: int, reports: Sequence[Report]) -> Histogram:
        """The load of a batch, as it was remembered; a batch without records is not."""
        if self.recent and self.recent[-1][0] == batch:
            return self.recent[-1][1]
        return histogram_of(reports, self.key_names, self.key_type, self.buckets)

    @property
    def _patience(self) -> int:
        """How many batches the policy and the scaling rule want to see."""
        rules = (self.steering.policy, self.steering.scaling)
        return max(int(getattr(rule, "patience", 0)) for rule in rules)

    def _decide(
        self, turn: Turn, table: RoutingTable, joint_goal: Goal | None
    ) -> tuple[RoutingTable | None, Decision]:
        steering = self.steering
        slots = self._target_slots(table)
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

    def _target_slots(self, table: RoutingTable) -> int:
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
        """Batches since the table last changed; None if it never did."""
        if turn.target is not None:
            return 0
        return turn.batch - turn.since + 1 if turn.since else None

    def _line(
        self, turn: Turn, next_turn: Turn, reports: Sequence[Report], decision: Decision | None
    ) -> dict[str, Any]:
        """What happened in a batch, as one line of the journal."""
        histogram = self._histogram(turn.batch, reports)
        loads = np.zeros(turn.table.slots)
        for report in reports:
            if report.ack.slot < len(loads):
                loads[report.ack.slot] = report.figures["records"]
        exported = [e for r in reports for e in r.ack.exported or ()]
        target = next_turn.target
        ahead = None if target is None else migration(next_turn.table, target, histogram)
        planned = None
        if target is not None and histogram.total:
            planned = round(imbalance(slot_loads(target, histogram)), 4)
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
            "planned": planned,
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
            "decision": None if decision is None else _figures_of(decision),
            "top": [[str(k)[:KEY_LENGTH], n, slot] for (k, n), slot in zip(top, slots, strict=True)],
            "top_heavy": (turn.table.rows_of(hashes) >= 0).tolist(),
            "seconds": {"slots": laps, "slowest": _slowest(reports)},
        }


def _figures_of(decision: Decision) -> dict[str, Any]:
    return {
        "switch": decision.switch,
        "reason": decision.reason,
        "gain": round(decision.gain, 4),
        "cost": round(decision.cost, 4),
    }


def _slowest(reports: Sequence[Report]) -> float:
    return round(max((sum(r.figures["seconds"].values()) for r in reports), default=0.0), 6)


def histogram_of(
    reports: Sequence[Report], key_names: tuple[str, ...], key_type: pa.DataType, buckets: int
) -> Histogram:
    """The load of a batch from the reports of its slots; a slot has all the records of its keys."""
    parts = [_part(r.loads, key_names, key_type, buckets) for r in reports if len(r.loads)]
    if not parts:
        return Histogram.empty(key_type, buckets=buckets)
    histogram = merge_all(parts)
    return histogram.trimmed(histogram.capacity)  # heaviest first, even if only one slot reported


def _part(loads: pa.Table, key_names: tuple[str, ...], key_type: pa.DataType, buckets: int) -> Histogram:
    is_bucket = loads["bucket"].to_numpy()
    heavy, rest = loads.filter(pa.array(~is_bucket)), loads.filter(pa.array(is_bucket))
    columns = [heavy[f"key.{i}"].combine_chunks() for i in range(len(key_names))]
    keys = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, list(key_names))
    records, state = (heavy[c].to_numpy() for c in (RECORDS, "state"))
    by_bucket = {c: np.zeros(buckets) for c in (RECORDS, "state", "distinct")}
    for name, figures in by_bucket.items():
        figures[rest[HASH].to_numpy()] = rest[name].to_numpy()
    hashes = heavy[HASH].to_numpy()
    order = np.argsort(hashes)
    return Histogram(
        keys.cast(key_type).take(pa.array(order)),
        hashes[order],
        Measures(records, records, state)[order],
        Measures(by_bucket[RECORDS], by_bucket[RECORDS], by_bucket["state"]),
        by_bucket["distinct"],
        key_names=key_names,
    )
