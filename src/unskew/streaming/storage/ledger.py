"""What a live operator keeps beside Spark's checkpoint: turns, tables, handoffs, acknowledgements.

operator              what the operator is: checked when the query starts again
turns/B               the turn of batch B (first writer wins)
tables/V, targets/B   routing tables by version; the table to export towards during batch B
handoffs/B/F-T-A      state that slot F exported to slot T in batch B, in attempt A
acks/B/S              what slot S says of batch B: its acknowledgement and its loads (last writer wins)
pairs/B/T             the pairs of keys that task T of batch B saw on their way from the operator before
journal/I             lines I·100 … I·100+99 of the journal
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from unskew.core import files
from unskew.core.chains.pairs import PairHistogram
from unskew.core.files import UnreadableFileError
from unskew.core.migration.protocol import Acknowledgement, Exported, Handoff, Turn
from unskew.core.routing import RoutingTable
from unskew.streaming.storage.folder import Folder, absolute

RETAINED = 100
"""Batches whose files are kept, as Spark keeps 100 of its own: a batch that is replayed finds what it needs."""

TIDIED = 10
"""Batches between two looks for files that are no longer needed: listing folders takes time."""

LINES = 100
"""Lines of the journal in a file: writing one again each batch stays cheap, and so does reading all of them."""


class LedgerError(RuntimeError):
    """A file of the checkpoint that a running query needs is missing or damaged: it stops, and says which."""


@dataclass(frozen=True)
class Report:
    """What a slot says of a batch: the acknowledgement, its loads by key, and figures for the journal."""

    ack: Acknowledgement
    loads: pa.Table
    figures: Mapping[str, Any] = field(default_factory=dict)


def operator_of(checkpoint: str, number: int) -> dict[str, Any]:
    """What the operator of that number was when the query first started; a ValueError if there is none."""
    first = Ledger(absolute(checkpoint)).operator()
    if first is None:
        raise ValueError(
            f"{checkpoint} is no checkpoint of unskew.stream: it has no file unskew/operator; "
            "name the folder that was given to start(checkpoint=…), once that query has started"
        )
    about = Ledger(absolute(checkpoint), number=number).operator()
    if about is None:
        raise ValueError(
            f"{checkpoint} has {first.get('operators', 1)} operators, numbered from 0, and no operator {number}"
        )
    return about


class Ledger:
    """Reads and writes the files under `<checkpoint>/unskew`; `identity` is drawn when the checkpoint is made.

    `spark` is the checkpoint itself, which is Spark's to write. Of several operators in a row each has a ledger, by
    its `number`, those after the first in folders inside that of the first. Spark numbers their states from the
    last one: `state`.
    """

    def __init__(self, checkpoint: str, identity: str = "", number: int = 0, state: int = 0) -> None:
        inside = f"/then/{number}" if number else ""
        self.folder = Folder(f"{checkpoint.rstrip('/')}/unskew{inside}")
        self.spark = Folder(checkpoint)
        self.identity = identity
        self.state = state

    def operator(self) -> dict[str, Any] | None:
        """What the operator was when the query first started."""
        data = self.folder.find("operator")
        return None if data is None else self._decoded(data, "operator", "operator")[0]

    def write_operator(self, about: Mapping[str, Any]) -> None:
        """Keep what the operator is."""
        self.folder.write("operator", files.encode("operator", 1, about, {}))

    def turn(self, batch: int) -> Turn:
        """The turn of a batch, or a LedgerError."""
        found = self.find_turn(batch)
        if found is None:
            raise LedgerError(
                f"{self._name(f'turns/{batch}')} is missing: without it nobody knows where the state is; restore it"
            )
        return found

    def find_turn(self, batch: int) -> Turn | None:
        """The turn of a batch if it is published."""
        data = self.folder.find(f"turns/{batch}")
        if data is None:
            return None
        meta = self._decoded(data, "turn", f"turns/{batch}")[0]
        table = _table(self.folder.address, self.identity, f"tables/{meta['table']}")
        target = (
            None if meta["target"] is None else _table(self.folder.address, self.identity, f"targets/{batch}")
        )
        return Turn.from_meta(meta, table, target)

    def publish(self, turn: Turn) -> Turn:
        """Publish a turn, unless one is published for its batch; returns the one that is in force."""
        found = self.find_turn(turn.batch)
        if found is not None:
            return found
        name, data = f"tables/{turn.table.version}", turn.table.to_bytes()
        if self.folder.find(name) != data:  # another one is there if a driver died before it published
            self.folder.write(name, data)
        if turn.target is not None:
            self.folder.write(f"targets/{turn.batch}", turn.target.to_bytes())
        self.folder.write(f"turns/{turn.batch}", files.encode("turn", 1, turn.to_meta(), {}))
        return turn

    def write_handoff(
        self, batch: int, source: int, destination: int, attempt: str, rows: pa.Table
    ) -> Exported:
        """Write the state that leaves a slot for another."""
        name = f"handoffs/{batch}/{source}-{destination}-{attempt}"
        data = files.encode("handoff", 1, {"source": source, "destination": destination}, {"rows": rows})
        self.folder.write(name, data)
        return Exported(name, destination, len(rows), len(data))

    def read_handoff(self, handoff: Handoff) -> pa.Table:
        """State that arrives; a file that cannot be read stops the query: never an empty state in silence."""
        try:
            data = self.folder.read(handoff.file)
        except FileNotFoundError as error:
            raise LedgerError(
                f"{self._name(handoff.file)} is missing: it holds the state of {handoff.rows} keys on their way "
                f"from slot {handoff.source} to slot {handoff.destination}; restore it"
            ) from error
        return self._decoded(data, "handoff", handoff.file)[1]["rows"]

    def write_report(self, report: Report) -> None:
        """Keep what a slot says of a batch."""
        ack = report.ack
        meta = {"ack": asdict(ack), "figures": dict(report.figures)}
        data = files.encode("acknowledgement", 1, meta, {"loads": report.loads})
        self.folder.write(f"acks/{ack.batch}/{ack.slot}", data)

    def reports(self, batch: int) -> list[Report]:
        """What the slots said of a batch, by slot."""
        found = []
        for slot in self.folder.names(f"acks/{batch}"):
            name = f"acks/{batch}/{slot}"
            meta, tables = self._decoded(self.folder.read(name), "acknowledgement", name)
            said = meta["ack"]
            exported = said["exported"]
            files_ = None if exported is None else tuple(Exported(**e) for e in exported)
            ack = Acknowledgement(said["slot"], said["batch"], said["applied"], files_)
            found.append(Report(ack, tables["loads"], meta["figures"]))
        return sorted(found, key=lambda r: r.ack.slot)

    def heard(self, batch: int) -> set[int]:
        """The slots that reported on a batch."""
        return {int(name) for name in self.folder.names(f"acks/{batch}")}

    def stored(self, batch: int, partitions: int) -> bool:
        """Whether Spark has stored the state of every partition after a batch."""
        version = str(batch + 1)
        return all(
            any(
                name.partition(".")[0].partition("_")[0] == version
                for name in self.spark.names(f"state/{self.state}/{p}")
            )
            for p in range(partitions)
        )

    def forget_reports(self, batch: int) -> None:
        """Drop what was said of a batch that is about to run again."""
        self.folder.delete(f"acks/{batch}")
        self.forget_pairs(batch)

    def write_pairs(self, batch: int, task: int, pairs: PairHistogram) -> None:
        """Keep the pairs of keys that a task saw."""
        self.folder.write(f"pairs/{batch}/{task}", pairs.to_bytes())

    def pairs(self, batch: int) -> list[PairHistogram]:
        """The pairs of keys that the tasks of a batch saw."""
        found = []
        for task in self.folder.names(f"pairs/{batch}"):
            name = f"pairs/{batch}/{task}"
            try:
                found.append(PairHistogram.from_bytes(self.folder.read(name), self._name(name)))
            except (UnreadableFileError, FileNotFoundError) as error:
                raise LedgerError(str(error)) from error
        return found

    def forget_pairs(self, batch: int) -> None:
        """Drop the pairs of a batch: nobody will count them again."""
        self.folder.delete(f"pairs/{batch}")

    def current(self) -> int:
        """The batch that the callback is at; only Spark Connect needs to ask."""
        try:
            data = self.folder.read("current")
        except FileNotFoundError as error:
            raise LedgerError(f"{self._name('current')} is missing: a task cannot tell its batch") from error
        return int(self._decoded(data, "current", "current")[0]["batch"])

    def write_current(self, batch: int) -> None:
        """Write down which batch the callback is at."""
        self.folder.write("current", files.encode("current", 1, {"batch": batch}, {}))

    def wish(self) -> int | None:
        """The number of slots that somebody asked for by hand."""
        data = self.folder.find("wish")
        return None if data is None else int(self._decoded(data, "wish", "wish")[0]["slots"])

    def write_wish(self, slots: int | None) -> None:
        """Ask for a number of slots; None leaves it to the rule again."""
        if slots is None:
            self.folder.delete("wish")
        else:
            self.folder.write("wish", files.encode("wish", 1, {"slots": slots}, {}))

    def write_line(self, line: Mapping[str, Any]) -> None:
        """Add a line to the journal, or replace the line of that batch and all after it."""
        name = f"journal/{line['batch'] // LINES:08d}"
        kept = [old for old in self._lines(name) if old["batch"] < line["batch"]]
        text = "".join(json.dumps(one) + "\n" for one in [*kept, dict(line)])
        self.folder.write(name, text.encode())

    def lines(self, since: int = 0) -> list[dict[str, Any]]:
        """The lines of the journal from batch `since` on."""
        names = [n for n in self.folder.names("journal") if n.isdigit() and int(n) >= since // LINES]
        return [line for n in names for line in self._lines(f"journal/{n}") if line["batch"] >= since]

    def tidy(self, turn: Turn) -> None:
        """Delete what no batch that could still be replayed needs.

        Now and then, by what is there: what a crash left behind, or an attempt that did not count, goes as well.
        """
        old = turn.batch - RETAINED
        if old < 0 or old % TIDIED:
            return
        oldest = self.find_turn(old + 1)
        if oldest is None:
            return
        waiting = {handoff.file.split("/")[1] for handoff in oldest.pending}
        for folder, last in (
            ("turns", old),
            ("targets", old),
            ("acks", old),
            ("handoffs", old),
            ("tables", oldest.table.version - 1),
        ):
            for name in self.folder.names(folder):
                if name.isdigit() and int(name) <= last and not (folder == "handoffs" and name in waiting):
                    self.folder.delete(f"{folder}/{name}")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of one file; a damaged line is left out: the journal is for reading, nothing is decided by it."""
        lines = []
        for text in (self.folder.find(name) or b"").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and isinstance(line.get("batch"), int):
                lines.append(line)
        return lines

    def _decoded(self, data: bytes, kind: str, name: str) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        try:
            return files.decode(data, kind, 1, self._name(name))
        except UnreadableFileError as error:
            raise LedgerError(str(error)) from error

    def _name(self, name: str) -> str:
        return f"{self.folder.address}/{name}"


@lru_cache(maxsize=16)
def _table(address: str, identity: str, name: str) -> RoutingTable:  # noqa: ARG001 it is part of the cache's key
    """A published table. `identity` tells checkpoints apart that have the same address, one after the other."""
    folder = Folder(address)
    try:
        return RoutingTable.from_bytes(folder.read(name), f"{address}/{name}")
    except FileNotFoundError as error:
        raise LedgerError(f"{address}/{name} is missing: restore it") from error
    except UnreadableFileError as error:
        raise LedgerError(str(error)) from error
