"""A tiny stream that moves state by the protocol, crashes often, and notices when state is lost or doubled.

State is one counter per key. A crash leaves what it leaves in reality: the slots' state as the last batch
committed it, files, acknowledgements and published turns.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np

from unskew.core.hashing import hash_keys
from unskew.core.histogram import Histogram
from unskew.core.migration.budget import Budget
from unskew.core.migration.protocol import Acknowledgement, Exported, ProtocolError, Turn, first_turn
from unskew.core.routing import RoutingTable

SLOTS, BUCKETS, KEYS = 4, 5, 12  # few buckets, so that heavy keys share theirs with others
HASHES = hash_keys(np.arange(KEYS))
Rows = dict[int, int]


class Violation(AssertionError):  # noqa: N818 it is a finding
    """The protocol broke its promise."""


class Crash(Exception):  # noqa: N818 it is not an error, it is what the world is for
    """The driver dies."""


def random_table(random: Random) -> RoutingTable:
    """Some slots, each bucket anywhere, up to four heavy keys anywhere."""
    slots = random.randint(1, SLOTS)
    heavy = random.sample(range(KEYS), random.randint(0, 4))
    return RoutingTable.build(
        slots,
        np.array([random.randrange(slots) for _ in range(BUCKETS)]),
        np.array(heavy, dtype=np.int64),
        np.array([random.randrange(slots) for _ in heavy], dtype=np.int64),
        hashes=HASHES[heavy],
    )


# Building a table costs more than running a batch, so all worlds draw from the same ones.
POOL = [random_table(Random(seed)) for seed in range(300)]
POOL_ROUTES = {id(table): (table, table.slot_of_hashes(HASHES).tolist()) for table in POOL}
BUDGETS = [Budget.fluid(1), Budget.fluid(2), Budget.batched(0.2), Budget.sudden()]
MEASURED = [
    None,
    Histogram.from_arrays(np.arange(KEYS), np.arange(KEYS) + 1.0, buckets=BUCKETS, capacity=5),
]


class World:
    """One schedule, drawn from a seed and run with some kind of turn, perhaps a broken one.

    With `shrinking`, a replay may leave out slots that were called before, which the protocol cannot survive but
    must notice. With `haunted`, a driver that is thought dead may publish while its batch is replayed.
    """

    def __init__(
        self, seed: int, kind: type[Turn] = Turn, *, shrinking: bool = False, haunted: bool = True
    ) -> None:
        self.random = Random(seed)
        self.shrinking = shrinking
        self.haunted = haunted
        self.turns: dict[int, Turn] = {0: kind(**vars(first_turn(self.random.choice(POOL))))}
        self.state: dict[int, tuple[int, Rows]] = {}
        self.truth: Counter[int] = Counter()
        self.files: dict[str, Rows] = {}
        self.names = 0
        self.route_cache: dict[int, tuple[RoutingTable, list[int]]] = dict(POOL_ROUTES)
        self.met: Counter[str] = Counter()

    def run(self, batches: int) -> World:
        """Run and check that many batches."""
        for batch in range(batches):
            self.batch(batch)
        return self

    def batch(self, batch: int) -> None:
        """Run a batch until it commits."""
        records = Counter(self.random.choices(range(KEYS), k=self.random.randrange(6)))
        acks: dict[int, Acknowledgement] = {}
        stalled: list[Acknowledgement] = []  # what a driver that is not quite dead will publish
        called: set[int] = set()
        for _ in range(100):
            try:
                self._attempt(batch, records, called, acks, stalled)
                return
            except Crash as crash:
                self.met[str(crash)] += 1
        raise Violation(f"batch {batch} never commits")

    def _attempt(
        self,
        batch: int,
        records: Counter[int],
        called: set[int],
        acks: dict[int, Acknowledgement],
        stalled: list[Acknowledgement],
    ) -> None:
        random, turn = self.random, self.turns[batch]
        routes = self.routes(turn.table)
        by_slot: dict[int, Rows] = {}
        for key, n in records.items():
            by_slot.setdefault(routes[key], {})[key] = n
        more = {slot for slot in range(SLOTS) if random.random() < 0.4}
        if batch + 1 in self.turns and (more | by_slot.keys()) - called:
            self.met["late call"] += 1
        if self.shrinking:
            called.clear()
        called |= by_slot.keys() | more
        order = random.sample(sorted(called), len(called))
        fate = random.choice(["slots", "acks", "published", *["commit"] * 4])
        stop = random.randrange(len(order) + 1) if fate == "slots" else None
        haunted = random.randrange(len(order) + 1) if stalled and random.random() < 0.5 else None
        working = dict(self.state)
        for i, slot in enumerate(order):
            if i == stop:
                raise Crash("after some slots")
            if i == haunted:
                self._publish(turn, stalled)
            attempts = random.choice([1, 1, 1, 2])
            tries = [self._slot(turn, slot, by_slot.get(slot, {})) for _ in range(attempts)]
            working[slot], acks[slot] = random.choice(tries)[0], random.choice(tries)[1]
        if fate == "acks":
            stalled[:] = acks.values() if self.haunted else ()
            raise Crash("after the acknowledgements")
        if batch + 1 in self.turns:
            try:
                turn.confirm(self.turns[batch + 1], acks.values())
            except ProtocolError:
                raise Crash("published by another driver") from None
        else:
            self._publish(turn, list(acks.values()))
        if fate == "published":
            raise Crash("after publishing")
        self.state = working
        self.truth.update(records)
        after = self.turns[batch + 1]
        # a handoff that the next turn no longer lists was imported, and this batch will not be replayed
        for handoff in set(turn.pending) - set(after.pending):
            self.files.pop(handoff.file, None)
        self._check(turn, after)

    def _publish(self, turn: Turn, acks: list[Acknowledgement]) -> None:
        self.turns.setdefault(turn.batch + 1, turn.close(acks, self.choose))

    def routes(self, table: RoutingTable) -> list[int]:
        """The slot of each key; cached, since every table is asked many times."""
        cached = self.route_cache.get(id(table))
        if cached is None or cached[0] is not table:
            cached = self.route_cache[id(table)] = (table, table.slot_of_hashes(HASHES).tolist())
        return cached[1]

    def choose(self, table: RoutingTable) -> RoutingTable | None:
        """A new target in nearly every batch, whether or not the last one was reached."""
        chance = self.random.random()
        if chance < 0.2:
            return None
        goal = self.random.choice(POOL)
        if chance < 0.8:
            return goal
        return self.random.choice(BUDGETS).step(table, goal, self.random.choice(MEASURED))

    def _slot(self, turn: Turn, slot: int, counts: Rows) -> tuple[tuple[int, Rows], Acknowledgement]:
        """A slot's part in a batch, from its committed state."""
        applied, committed = self.state.get(slot, (None, {}))
        rows = dict(committed)
        for handoff in turn.imports(slot, applied):
            if handoff.file not in self.files:
                raise Violation(f"{handoff} was deleted too early")
            for key, value in self.files[handoff.file].items():
                if key in rows:
                    raise Violation(f"key {key} arrives on slot {slot}, which has it")
                rows[key] = value
        for key, n in counts.items():
            if rows.get(key, 0) != self.truth[key]:
                raise Violation(f"slot {slot} handles key {key} with state {rows.get(key)}")
            rows[key] = rows.get(key, 0) + n
        target = turn.exports(slot, self.turns.get(turn.batch + 1))
        exported = None
        if target is not None:
            leaving: dict[int, Rows] = {}
            routes = self.routes(target)
            for key in [key for key in rows if routes[key] != slot]:
                leaving.setdefault(routes[key], {})[key] = rows.pop(key)
            exported = tuple(self._write(to, part) for to, part in leaving.items())
        return (turn.batch, rows), Acknowledgement(slot, turn.batch, turn.batch, exported)

    def _write(self, destination: int, rows: Rows) -> Exported:
        self.names += 1  # every attempt writes under a name of its own
        self.files[str(self.names)] = rows
        return Exported(str(self.names), destination, len(rows), 8 * len(rows))

    def _check(self, turn: Turn, after: Turn) -> None:
        """Every key is in one place, which is where it is routed, with what was counted; versions grow."""
        if self.shrinking:
            return  # a slot left out may hold stale rows until it is called, and refused
        places = [(slot, rows) for slot, (_, rows) in self.state.items()]
        for handoff in after.pending:
            applied = self.state.get(handoff.destination, (-1, {}))[0]
            if handoff.released > applied:
                places.append((handoff.destination, self.files[handoff.file]))
        routes = self.routes(after.table)
        counted: Rows = {}
        for slot, rows in places:
            for key, value in rows.items():
                if key in counted:
                    raise Violation(f"key {key} is in two places after batch {turn.batch}")
                if routes[key] != slot:
                    raise Violation(f"key {key} is on {slot} and routed to {routes[key]} after {turn.batch}")
                counted[key] = value
        if counted != self.truth:
            raise Violation(f"{counted} is not {dict(self.truth)} after batch {turn.batch}")
        if max(routes) >= after.table.slots:
            raise Violation(f"slot {max(routes)} is used, but not active")
        grown = after.table.version - turn.table.version
        if grown != (0 if after.table is turn.table else 1):
            raise Violation(f"version {turn.table.version} is followed by {after.table.version}")
        self.met["moves"] += len(after.pending)
        self.met["batches"] += 1
