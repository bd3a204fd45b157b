"""Moving state between slots while the stream runs, so that the state of every key is always in exactly one place.

A pure state machine. A `Turn` is all that the slots of one batch need to know: who exports, who imports, and which
table is in force. `Turn.close` makes the next turn from what the slots acknowledged. Reading, writing and waiting
happen elsewhere; `transition` has the tables that a partly done migration leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from unskew.core.migration.transition import check_pair, check_whole, table_after
from unskew.core.routing import RoutingTable

Choose: TypeAlias = Callable[[RoutingTable], RoutingTable | None]


class ProtocolError(RuntimeError):
    """What a slot stored contradicts what it acknowledged: to continue would lose state."""


@dataclass(frozen=True)
class Handoff:
    """A file of state on its way from one slot to another.

    `released` is the batch of the turn that first lists it: from then on its keys belong to `destination`.
    `digest` tells apart what two runs of a batch exported; checkpoints of format 1 have none.
    """

    file: str
    source: int
    destination: int
    released: int
    rows: int
    size: int
    digest: str = ""


@dataclass(frozen=True)
class Exported:
    """A handoff file as the slot that wrote it acknowledges it."""

    file: str
    destination: int
    rows: int
    size: int
    digest: str = ""


@dataclass(frozen=True)
class Acknowledgement:
    """What a slot did in a batch.

    `applied` is the last batch whose turn is applied in the state that it stored. `exported` is None where
    the slot was not to export, and empty where it was but none of its state had to leave.
    """

    slot: int
    batch: int
    applied: int
    exported: tuple[Exported, ...] | None = None

    def __repr__(self) -> str:
        exported = "no export"
        if self.exported is not None:
            rows = sum(file.rows for file in self.exported)
            exported = f"exported {rows} rows in {len(self.exported)} files"
        return f"Acknowledgement(slot {self.slot}, batch {self.batch}, applied {self.applied}, {exported})"


@dataclass(frozen=True)
class Turn:
    """The whole state of the protocol for one batch.

    Invariant: the state of every key is in one place, on the slot that `table` sends the key to or in one
    pending handoff addressed to that slot. So a slot that imports first can handle every record it gets.

    What upholds it: a move takes effect in the turn that lists its handoffs, and only for slots that
    acknowledged an export (`exporters`). A slot that was not called acknowledges nothing, so its keys stay. A
    replayed slot asks the next turn, once there is one, whether its export counted (`exports`), and a slot
    compares each handoff with what it has applied (`imports`), so nothing leaves or arrives twice. A key
    cannot move on before it has arrived: only a called slot exports, and a called slot has imported.

    A replay may compute something else: its input changed, or the query was taken back to an earlier batch. What the
    earlier run exported then does not belong to the state that the replay stores. So the turn that the earlier run
    published is replaced unless it lists the same handoffs by digest (`difference`), and a slot whose state does not
    belong to the handoffs that a turn lists is refused (`imports`).

    It relies on this: all read the same turn of a batch; a slot's state, its `applied` and the digests of what it
    exported are stored together; and only the driver that holds the checkpoint replaces a turn.
    `imported` is the last `applied` that each slot acknowledged; a slot that never acknowledged is missing from it.
    `since` is the first batch under `table`.

    >>> old, new = RoutingTable.build(2, [0, 0]), RoutingTable.build(2, [0, 1])
    >>> turn = first_turn(old).close([], lambda table: new)
    >>> turn
    Turn(batch 1, table version 0, target version 0, 0 pending handoffs)
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

    def __repr__(self) -> str:
        target = "no target" if self.target is None else f"target version {self.target.version}"
        return (
            f"Turn(batch {self.batch}, table version {self.table.version}, {target}, "
            f"{len(self.pending)} pending handoffs)"
        )

    def imports(
        self, slot: int, applied: int | None, exported: Iterable[str] | None = None
    ) -> tuple[Handoff, ...]:
        """What `slot`, which last applied the turn of batch `applied`, must import before it handles rows.

        In order of release, then of source. A slot whose stored state is older than what it acknowledged is
        refused: what it imported then is no longer pending, and it still holds what it exported then. So is a slot
        whose state is that of another run of the batch than the handoffs: `exported` are the digests of what left
        that state in batch `applied`, None where they are unknown.
        """
        acknowledged = self.imported.get(slot)
        if acknowledged is not None and (applied is None or applied < acknowledged):
            raise ProtocolError(
                f"slot {slot} acknowledged batch {acknowledged}, but its state has applied "
                f"{'no batch' if applied is None else f'batch {applied}'}: it was not called when batch "
                f"{acknowledged} was replayed, or its state was replaced; restore the state that belongs to this ledger"
            )
        since = -1 if applied is None else applied
        if exported is not None:
            listed = {h.digest for h in self.pending if h.source == slot and h.released == since + 1}
            is_next = self.batch == since + 1  # later, some of them have arrived and are listed no more
            if "" not in listed and not (listed == set(exported) if is_next else listed <= set(exported)):
                raise ProtocolError(
                    f"slot {slot} has the state of one run of batch {since}, but turn {self.batch} lists what another "
                    f"run of that batch exported: to run it again, stop every query on this checkpoint, remove from "
                    f"{since} on the files of its folders offsets and commits, and restart"
                )
        due = [h for h in self.pending if h.destination == slot and h.released > since]
        return tuple(sorted(due, key=lambda h: (h.released, h.source)))

    def exports(self, slot: int, after: Turn | None) -> RoutingTable | None:
        """The table towards which `slot` exports in this batch; None if it does not export.

        `after` is the next turn if it is already published, which means that this batch is being replayed: which
        exports count is settled then, and a slot that `after` does not list as an exporter keeps its state.
        """
        if after is None:
            return self.target
        self._check_next(after)
        return self.target if after.exporters is not None and slot in after.exporters else None

    def close(self, acks: Iterable[Acknowledgement], choose: Choose | None = None) -> Turn:
        """The turn of the next batch, from one acknowledgement for each slot that was called.

        The moves of the slots that exported take effect, the others do not. `choose` takes the resulting table
        and returns the table to export towards in the next batch, or None.
        """
        by_slot = self._by_slot(acks)
        batch, table, exporters = self.batch + 1, self.table, None
        if self.target is not None:
            exporters = frozenset(slot for slot, ack in by_slot.items() if ack.exported is not None)
            table = table_after(self.table, self.target, exporters)
        target = choose(table) if choose is not None else None
        if target is not None:
            check_pair(table, target)
            target = None if target.same_routes(table) else target
        applied = {slot: ack.applied for slot, ack in by_slot.items()}
        waiting = tuple(h for h in self.pending if applied.get(h.destination, -1) < h.released)
        released = tuple(
            Handoff(e.file, slot, e.destination, batch, e.rows, e.size, e.digest)
            for slot, ack in sorted(by_slot.items())
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

    def difference(self, other: Turn) -> str | None:
        """How the state lies elsewhere under another turn of this batch; None if both suit the same state.

        Handoffs without a digest count as different. The table to export towards next may differ.
        """
        if self.batch != other.batch or not self.table.same_routes(other.table):
            return "the slots of some keys"
        if self.exporters != other.exporters:
            return "which slots exported"
        if dict(self.imported) != dict(other.imported):
            return "which slots were called"
        if any(not h.digest for h in (*self.pending, *other.pending) if h.released == self.batch):
            return None if self.pending == other.pending else "what was exported cannot be compared"
        for handoff in _contents(self.pending) ^ _contents(other.pending):
            return f"what slot {handoff[0]} exported to slot {handoff[1]}"
        return None

    def confirm(self, after: Turn, acks: Iterable[Acknowledgement]) -> None:
        """Refuse a run of this batch that exported something else than the next turn, published by another run, lists.

        To be called by a driver that finds the next turn already published: another driver, thought dead, may have
        published it while the slots were at work. The batch must then fail, and its replay will read `after`.
        """
        self._check_next(after)
        counted = after.exporters or frozenset()
        for slot, ack in self._by_slot(acks).items():
            if ack.exported is not None and slot not in counted:
                raise ProtocolError(
                    f"slot {slot} exported in batch {self.batch}, but turn {after.batch} was published without it; "
                    "run the batch again"
                )
            listed = {
                h.destination: h.digest
                for h in after.pending
                if (h.source, h.released) == (slot, after.batch)
            }
            counted_files = {e.destination: e.digest for e in ack.exported or ()}
            if "" not in listed.values() and listed != counted_files:
                raise ProtocolError(
                    f"slot {slot} exported in batch {self.batch} what turn {after.batch}, published by another run of "
                    "the batch, does not list; run the batch again"
                )

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
        for name, routing in (("table", table), ("target", target)):
            version = None if routing is None else routing.version
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

    def _by_slot(self, acks: Iterable[Acknowledgement]) -> dict[int, Acknowledgement]:
        """The acknowledgements by slot, refused where they cannot belong to this batch."""
        by_slot: dict[int, Acknowledgement] = {}
        for ack in acks:
            who = f"slot {ack.slot} in batch {self.batch}"
            if ack.batch != self.batch:
                raise ValueError(f"batch {self.batch} is closed with an acknowledgement of batch {ack.batch}")
            if ack.slot in by_slot:
                raise ValueError(f"{who} is acknowledged twice; give the last acknowledgement only")
            if not self.imported.get(ack.slot, -1) <= ack.applied <= self.batch:
                raise ValueError(
                    f"{who} claims to have applied batch {ack.applied}, after batch {self.imported.get(ack.slot)}"
                )
            by_slot[ack.slot] = ack
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
        return by_slot

    def _check_next(self, after: Turn) -> None:
        if after.batch != self.batch + 1:
            raise ValueError(f"the turn after {self.batch} is {self.batch + 1}, not {after.batch}")


def _contents(handoffs: Iterable[Handoff]) -> set[tuple[int, int, int, str]]:
    """Handoffs by what is in them, wherever it is written."""
    return {(h.source, h.destination, h.released, h.digest or h.file) for h in handoffs}


def first_turn(table: RoutingTable, batch: int = 0) -> Turn:
    """The turn to start a stream with: nothing moves and nothing is pending."""
    check_whole(table)
    return Turn(batch, table, since=batch)
