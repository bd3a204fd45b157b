"""Moving state between slots while the stream runs: who exports, who imports, which table holds in a batch.

A pure state machine. A `Turn` is all that the slots of one batch need to know; `Turn.close` makes the next
one from what the slots acknowledged. Reading, writing and waiting are done elsewhere; which routes a
partly done move leads to is in `transition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from unskew.core.migration.transition import agreed, check_pair, check_whole
from unskew.core.routing import RoutingTable

Choose: TypeAlias = Callable[[RoutingTable], RoutingTable | None]


class ProtocolError(RuntimeError):
    """What a slot stored and what it acknowledged contradict each other: going on would lose state."""


@dataclass(frozen=True)
class Handoff:
    """A file of state on its way from one slot to another.

    `released` is the batch of the turn that first lists it: from then on its keys belong to `destination`.
    """

    file: str
    source: int
    destination: int
    released: int
    rows: int
    size: int


@dataclass(frozen=True)
class Exported:
    """A handoff file as the slot that wrote it acknowledges it."""

    file: str
    destination: int
    rows: int
    size: int


@dataclass(frozen=True)
class Acknowledgement:
    """What a slot did in a batch.

    `applied` is the last batch whose turn is applied in the state that it stored. `exported` is None where
    it was not to export; empty where it was, and nothing of its state had to leave.
    """

    slot: int
    batch: int
    applied: int
    exported: tuple[Exported, ...] | None = None


@dataclass(frozen=True)
class Turn:
    """The whole state of the protocol for one batch.

    Invariant: the state of every key is in one place, on the slot that `table` sends the key to or in one
    pending handoff addressed to that slot. So a slot that imports first can handle every record it gets.

    What keeps it: a move takes effect in the turn that lists its handoffs, and only for slots that said
    they exported (`exporters`). A slot that was not called says nothing, so its keys stay. A slot that
    is replayed asks the next turn, once there is one, whether its export counted (`exports`), and a slot
    compares each handoff with what it has applied (`imports`), so nothing leaves or arrives twice. A key
    cannot be moved on before it arrived: only a called slot exports, and a called slot has imported.

    It needs: the first turn published for a batch is the one that all read, a slot's state and its
    `applied` are stored together, a batch that is replayed calls every slot that it called before, and the
    same rows expire. `since` is the first batch under `table`. `imported` is the last `applied` heard of each
    slot; a slot that was never heard of has none.

    >>> one, two = RoutingTable.build(2, [0, 0]), RoutingTable.build(2, [0, 1])
    >>> turn = first_turn(one).close([], lambda table: two)
    >>> ack = Acknowledgement(slot=0, batch=1, applied=1, exported=(Exported("a", 1, rows=5, size=80),))
    >>> turn = turn.close([ack])
    >>> turn.table.buckets.tolist(), [h.file for h in turn.imports(1, None)]
    ([0, 1], ['a'])
    """

    batch: int
    table: RoutingTable
    target: RoutingTable | None = None
    pending: tuple[Handoff, ...] = ()
    exporters: frozenset[int] | None = None
    imported: Mapping[int, int] = field(default_factory=dict)
    since: int = 0

    def imports(self, slot: int, applied: int | None) -> tuple[Handoff, ...]:
        """What `slot`, which last applied the turn of batch `applied`, must import before it handles rows.

        In order of release, then of source. A slot whose stored state is older than what it acknowledged is
        refused: what it imported then is no longer pending, and what it exported then it still holds.
        """
        heard = self.imported.get(slot)
        if heard is not None and (applied is None or applied < heard):
            raise ProtocolError(
                f"slot {slot} acknowledged batch {heard}, but its state has applied "
                f"{'no batch' if applied is None else f'batch {applied}'}: it was not called when batch "
                f"{heard} was replayed, or its state was replaced; restore the state that belongs to this ledger"
            )
        since = -1 if applied is None else applied
        due = [h for h in self.pending if h.destination == slot and h.released > since]
        return tuple(sorted(due, key=lambda h: (h.released, h.source)))

    def exports(self, slot: int, after: Turn | None) -> RoutingTable | None:
        """The table towards which `slot` exports in this batch, if it does.

        `after` is the next turn where it is already published, so the batch is being replayed: what counted
        is settled then, and a slot that it does not list as an exporter keeps its state.
        """
        if after is None:
            return self.target
        self._check_next(after)
        return self.target if after.exporters is not None and slot in after.exporters else None

    def close(self, acks: Iterable[Acknowledgement], choose: Choose | None = None) -> Turn:
        """The turn of the next batch, from one acknowledgement for each slot that was called.

        The moves of the slots that exported take effect, the others do not. `choose` is given the table that
        results and returns the table to export towards in the next batch, or None.
        """
        heard = self._heard(acks)
        batch, table, exporters = self.batch + 1, self.table, None
        if self.target is not None:
            exporters = frozenset(slot for slot, ack in heard.items() if ack.exported is not None)
            table = agreed(self.table, self.target, exporters)
        target = choose(table) if choose is not None else None
        if target is not None:
            check_pair(table, target)
            target = None if target.same_routes(table) else target
        applied = {slot: ack.applied for slot, ack in heard.items()}
        waiting = tuple(h for h in self.pending if applied.get(h.destination, -1) < h.released)
        released = tuple(
            Handoff(e.file, slot, e.destination, batch, e.rows, e.size)
            for slot, ack in sorted(heard.items())
            for e in ack.exported or ()
        )
        return replace(
            self,
            batch=batch,
            table=table,
            target=target,
            pending=waiting + released,
            exporters=exporters,
            imported={**self.imported, **applied},
            since=self.since if table.version == self.table.version else batch,
        )

    def confirm(self, after: Turn, acks: Iterable[Acknowledgement]) -> None:
        """Refuse a run of this batch that exported what the next turn, published by another run, leaves.

        To be asked by whoever finds the next turn already there: a driver that was thought dead may have
        published it while the slots were at work. The batch must then fail, and its replay will see `after`.
        """
        self._check_next(after)
        counted = after.exporters or frozenset()
        for slot, ack in self._heard(acks).items():
            if ack.exported is not None and slot not in counted:
                raise ProtocolError(
                    f"slot {slot} exported in batch {self.batch}, but turn {after.batch} was published without it; "
                    "run the batch again"
                )

    def retired(self, after: Turn) -> tuple[Handoff, ...]:
        """The handoffs imported in this batch, as the next turn knows.

        Their files may be deleted once the batch is committed and too old to be replayed.
        """
        self._check_next(after)
        waiting = {h.file for h in after.pending}
        return tuple(h for h in self.pending if h.file not in waiting)

    def to_meta(self) -> dict[str, Any]:
        """The turn without its tables, as JSON can hold it."""
        return {
            "batch": self.batch,
            "table": self.table.version,
            "target": None if self.target is None else self.target.version,
            "pending": [asdict(h) for h in self.pending],
            "exporters": None if self.exporters is None else sorted(self.exporters),
            "imported": sorted(self.imported.items()),
            "since": self.since,
        }

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any], table: RoutingTable, target: RoutingTable | None) -> Turn:
        """The turn that `to_meta` described, with its tables; tables of other versions are refused."""
        for name, given in (("table", table), ("target", target)):
            version = None if given is None else given.version
            if version != meta[name]:
                raise ValueError(
                    f"turn {meta['batch']} has a {name} of version {meta[name]}, not of version {version}"
                )
        exporters = meta["exporters"]
        return cls(
            meta["batch"],
            table,
            target,
            tuple(Handoff(**row) for row in meta["pending"]),
            None if exporters is None else frozenset(exporters),
            dict(meta["imported"]),
            meta["since"],
        )

    def _heard(self, acks: Iterable[Acknowledgement]) -> dict[int, Acknowledgement]:
        """The acknowledgements by slot, refused where they cannot be of this batch."""
        heard: dict[int, Acknowledgement] = {}
        for ack in acks:
            who = f"slot {ack.slot} in batch {self.batch}"
            if ack.batch != self.batch:
                raise ValueError(f"batch {self.batch} is closed with an acknowledgement of batch {ack.batch}")
            if ack.slot in heard:
                raise ValueError(f"{who} is acknowledged twice; give the last acknowledgement only")
            if not self.imported.get(ack.slot, -1) <= ack.applied <= self.batch:
                raise ValueError(
                    f"{who} says it applied batch {ack.applied}, after {self.imported.get(ack.slot)}"
                )
            heard[ack.slot] = ack
            if ack.exported is None:
                continue
            if self.target is None:
                raise ValueError(f"{who} exported, but the turn has no target")
            for file in ack.exported:
                if file.destination == ack.slot or not 0 <= file.destination < self.target.slots:
                    raise ValueError(
                        f"{who} exported {file.file!r} to slot {file.destination}, "
                        f"which is not another slot of 0..{self.target.slots - 1}"
                    )
        return heard

    def _check_next(self, after: Turn) -> None:
        if after.batch != self.batch + 1:
            raise ValueError(f"the turn after {self.batch} is {self.batch + 1}, not {after.batch}")


def first_turn(table: RoutingTable, batch: int = 0) -> Turn:
    """The turn to start a stream with: nothing moves and nothing is pending."""
    check_whole(table)
    return Turn(batch, table, since=batch)
