"""What a live operator stores beside Spark's checkpoint, and the format of its files.

operator                  what the operator is: checked when the query restarts
turns/B                   the turn of batch B (the first writer wins)
tables/V-D, targets/B-D   routing tables in force, by version; the table to export towards during batch B
handoffs/B/F-T-A-D        state that slot F exported to slot T in batch B, in attempt A
reports/B/S               the report of slot S on batch B: its acknowledgement and its loads (the last writer wins)
pairs/B/T                 the pairs of keys that task T of batch B counted between the previous operator and this one
journal/I                 lines I·100 … I·100+99 of the journal
current, wish             the batch under way (Spark Connect), and the number of slots that a user asked for

The format is a contract (`formats.py`): a checkpoint of every format restarts for ever (`tests/streaming/golden`). D is
a digest of the content, so two drivers that write one version never overwrite each other's table: the published turn
names its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import xxhash

from unskew.core import files
from unskew.core.chains.pairs import PairHistogram
from unskew.core.files import UnreadableFileError
from unskew.core.migration.protocol import Acknowledgement, Exported, Handoff, Turn
from unskew.core.routing import RoutingTable
from unskew.streaming.storage.folder import Folder, absolute
from unskew.streaming.storage.formats import FORMAT

RETAINED_BATCHES = 100
"""Batches whose files are retained, as Spark retains 100 of its own: a replayed batch has the files it needs."""

TIDY_INTERVAL = 10
"""Batches between two searches for files that are no longer needed: listing folders takes time."""

LINES_PER_FILE = 100
"""Lines of the journal per file: rewriting a file in each batch stays cheap, and so does reading all of them."""


StateFile: TypeAlias = tuple[int, str, int | None]
"""A file of Spark's state: its partition, its name, and when it was written, as far as the file system knows."""


class LedgerError(RuntimeError):
    """A file of the checkpoint that a running query needs is missing or damaged: the query stops and names it."""


@dataclass(frozen=True)
class Report:
    """What a slot reports about a batch: its acknowledgement, its loads by key, and figures for the journal."""

    ack: Acknowledgement
    loads: pa.Table
    figures: Mapping[str, Any] = field(default_factory=dict)


def operator_of(checkpoint: str, number: int) -> dict[str, Any]:
    """What the operator of that number was when the query first started; a ValueError if it does not exist."""
    first = Ledger(absolute(checkpoint)).operator()
    if first is None:
        raise ValueError(
            f"{checkpoint} is not a checkpoint of unskew.stream: it has no file unskew/operator; "
            "name the folder that was passed to start(checkpoint=…), once that query has started"
        )
    description = Ledger(absolute(checkpoint), number=number).operator()
    if description is None:
        raise ValueError(
            f"{checkpoint} has {first['operators']} operators, numbered from 0, and no operator {number}"
        )
    return description


class Ledger:
    """Reads and writes the files under `<checkpoint>/unskew`.

    `checkpoint_id` is drawn when the checkpoint is created. `spark` is the checkpoint itself, which is Spark's to
    write. Each of several chained operators has its own ledger, selected by `number`; those after the first are in
    folders inside the first one's. Spark numbers their states starting at the last operator: `state_number`.
    """

    def __init__(
        self, checkpoint: str, checkpoint_id: str = "", number: int = 0, state_number: int = 0
    ) -> None:
        subfolder = f"/then/{number}" if number else ""
        self.folder = Folder(f"{checkpoint.rstrip('/')}/unskew{subfolder}")
        self.spark = Folder(checkpoint)
        self.checkpoint_id = checkpoint_id
        self.state_number = state_number

    def operator(self) -> dict[str, Any] | None:
        """What the operator was when the query first started."""
        data = self.folder.find("operator")
        return None if data is None else self._decode(data, "operator", "operator")[0]

    def write_operator(self, description: Mapping[str, Any]) -> None:
        """Store what the operator is."""
        self.folder.write("operator", files.encode("operator", FORMAT, description, {}), durable=True)

    def turn(self, batch: int) -> Turn:
        """The turn of a batch, or a LedgerError."""
        turn = self.find_turn(batch)
        if turn is None:
            raise LedgerError(
                f"{self._address(f'turns/{batch}')} is missing: it says which slot has which state; restore it"
            )
        return turn

    def find_turn(self, batch: int) -> Turn | None:
        """The turn of a batch if it is published."""
        data = self.folder.find(f"turns/{batch}")
        if data is None:
            return None
        meta = self._decode(data, "turn", f"turns/{batch}")[0]
        table = self._table(meta["table_file"])
        target = None if meta["target_file"] is None else self._table(meta["target_file"])
        return Turn.from_meta(meta, table, target)

    def publish(self, turn: Turn) -> Turn:
        """Publish a turn, unless its batch has one already; returns the turn that is in force.

        The tables are on disk before the turn that names them. If another driver publishes the batch at the same
        moment, one of them wins, and both go on with the winner's turn.
        """
        published = self.find_turn(turn.batch)
        if published is not None:
            return published
        table_file = self._write_table(f"tables/{turn.table.version}", turn.table)
        target_file = None
        if turn.target is not None:
            target_file = self._write_table(f"targets/{turn.batch}", turn.target)
        names = {"table_file": table_file, "target_file": target_file}
        data = files.encode("turn", FORMAT, {**turn.to_meta(), **names}, {})
        return turn if self.folder.create(f"turns/{turn.batch}", data) else self.turn(turn.batch)

    def replace(self, turn: Turn) -> Turn:
        """Publish a turn instead of the one that its batch has; returns the turn that is in force.

        For the driver that holds the checkpoint, when a replayed batch computed something else. The turns after it
        followed from the one that is replaced, so they are deleted: newest first, for a crash must not leave a turn
        that does not follow from the one before it.
        """
        numbers = [int(name) for name in self.folder.names("turns") if name.isdigit()]
        for number in sorted((n for n in numbers if n >= turn.batch), reverse=True):
            self.folder.delete(f"turns/{number}")
        return self.publish(turn)

    def write_handoff(
        self, batch: int, source: int, destination: int, attempt: str, rows: pa.Table, input_digest: str = ""
    ) -> Exported:
        """Write the state that leaves a slot for another; `input_digest` tells what the slot computed it from."""
        digest = xxhash.xxh3_128_hexdigest(files.to_ipc(rows))
        meta = {"source": source, "destination": destination, "digest": digest, "input": input_digest}
        data = files.encode("handoff", FORMAT, meta, {"rows": rows})
        name = f"handoffs/{batch}/{source}-{destination}-{attempt}-{digest[:16]}"
        self.folder.write(name, data, durable=True)
        return Exported(name, destination, len(rows), len(data), digest)

    def read_handoff(self, handoff: Handoff) -> pa.Table:
        """State that arrives. A file that cannot be read stops the query: state is never lost silently."""
        try:
            data = self.folder.read(handoff.file)
        except FileNotFoundError as error:
            raise LedgerError(
                f"{self._address(handoff.file)} is missing: it holds the state of {handoff.rows} keys on their way "
                f"from slot {handoff.source} to slot {handoff.destination}; restore it"
            ) from error
        meta, tables = self._decode(data, "handoff", handoff.file)
        if handoff.digest and meta.get("digest") != handoff.digest:
            raise LedgerError(
                f"{self._address(handoff.file)} is not the file that turn {handoff.released} lists: restore it"
            )
        return tables["rows"]

    def write_report(self, report: Report) -> None:
        """Store the report of a slot on a batch."""
        ack = report.ack
        meta = {"ack": asdict(ack), "figures": dict(report.figures)}
        data = files.encode("report", FORMAT, meta, {"loads": report.loads}, compression="zstd")
        self.folder.write(f"reports/{ack.batch}/{ack.slot}", data)

    def reports(self, batch: int) -> list[Report]:
        """The reports of the slots on a batch, ordered by slot."""
        reports = []
        for slot in self.folder.names(f"reports/{batch}"):
            name = f"reports/{batch}/{slot}"
            meta, tables = self._decode(self.folder.read(name), "report", name)
            fields = dict(meta["ack"])
            if fields["exported"] is not None:
                fields["exported"] = tuple(Exported(**exported) for exported in fields["exported"])
            reports.append(Report(Acknowledgement(**fields), tables["loads"], meta["figures"]))
        return sorted(reports, key=lambda report: report.ack.slot)

    def reported_slots(self, batch: int) -> set[int]:
        """The slots that have reported on a batch."""
        return {int(name) for name in self.folder.names(f"reports/{batch}")}

    def state_files(self, partitions: int) -> frozenset[StateFile]:
        """The files in which Spark has stored the state of the partitions."""
        return frozenset(
            (partition, name, written)
            for partition in range(partitions)
            for name, written in self.spark.times(f"state/{self.state_number}/{partition}").items()
        )

    def has_stored_state(
        self, batch: int, partitions: int, earlier: frozenset[StateFile] = frozenset()
    ) -> bool:
        """Whether Spark has stored the state of every partition after a batch, in files that are not `earlier` ones."""
        version = str(batch + 1)
        stored = {
            partition
            for partition, name, _ in self.state_files(partitions) - earlier
            if name.partition(".")[0].partition("_")[0] == version
        }
        return len(stored) == partitions

    def watermark(self, batch: int) -> int:
        """The watermark of a batch (milliseconds), from Spark's own log of offsets; 0 before the first batch."""
        if batch < 0:
            return 0
        name = f"offsets/{batch}"
        try:
            # the first line is the format's version, the second the batch's metadata, then there is a line per source
            metadata = json.loads(self.spark.read(name).split(b"\n", 2)[1])
            return int(metadata["batchWatermarkMs"])
        except FileNotFoundError as error:
            raise LedgerError(
                f"{self.spark.address}/{name} is missing: Spark's watermark is in it; restore the checkpoint"
            ) from error
        except (ValueError, LookupError, TypeError) as error:
            raise LedgerError(
                f"{self.spark.address}/{name} cannot be read: Spark's watermark is not where it should be ({error})"
            ) from error

    def forget_reports(self, batch: int) -> None:
        """Drop the reports on a batch that is about to run again."""
        self.folder.delete(f"reports/{batch}")
        self.forget_pairs(batch)

    def write_pairs(self, batch: int, task: int, pairs: PairHistogram) -> None:
        """Store the pairs of keys that a task counted."""
        self.folder.write(f"pairs/{batch}/{task}", pairs.to_bytes())

    def pairs(self, batch: int) -> list[PairHistogram]:
        """The pairs of keys that the tasks of a batch counted."""
        histograms = []
        for task in self.folder.names(f"pairs/{batch}"):
            name = f"pairs/{batch}/{task}"
            try:
                histograms.append(PairHistogram.from_bytes(self.folder.read(name), self._address(name)))
            except (UnreadableFileError, FileNotFoundError) as error:
                raise LedgerError(str(error)) from error
        return histograms

    def forget_pairs(self, batch: int) -> None:
        """Drop the pairs of a batch: they will not be read again."""
        self.folder.delete(f"pairs/{batch}")

    def current(self) -> int:
        """The batch that the callback is handling; needed on Spark Connect only."""
        try:
            data = self.folder.read("current")
        except FileNotFoundError as error:
            raise LedgerError(
                f"{self._address('current')} is missing: without it a task cannot know its batch; restart the query"
            ) from error
        return int(self._decode(data, "current", "current")[0]["batch"])

    def write_current(self, batch: int) -> None:
        """Store which batch the callback is handling."""
        self.folder.write("current", files.encode("current", FORMAT, {"batch": batch}, {}))

    def wish(self) -> int | None:
        """The number of slots that a user asked for, or None."""
        data = self.folder.find("wish")
        return None if data is None else int(self._decode(data, "wish", "wish")[0]["slots"])

    def write_wish(self, slots: int | None) -> None:
        """Ask for a number of slots; None withdraws the wish."""
        if slots is None:
            self.folder.delete("wish")
        else:
            self.folder.write("wish", files.encode("wish", FORMAT, {"slots": slots}, {}), durable=True)

    def write_line(self, line: Mapping[str, Any]) -> None:
        """Add a line to the journal, or replace the line of that batch and all after it."""
        name = f"journal/{line['batch'] // LINES_PER_FILE:08d}"
        earlier = (self.folder.find(name) or b"").splitlines(keepends=True)
        # lines are in the order of their batches, so those to replace are the last
        while earlier and not _is_before(earlier[-1], line["batch"]):
            earlier.pop()
        self.folder.write(name, b"".join([*earlier, json.dumps(dict(line)).encode(), b"\n"]))

    def lines(self, since: int = 0) -> list[dict[str, Any]]:
        """The lines of the journal from batch `since` on."""
        names = [n for n in self.folder.names("journal") if n.isdigit() and int(n) >= since // LINES_PER_FILE]
        return [line for n in names for line in self._lines(f"journal/{n}") if line["batch"] >= since]

    def tidy(self, turn: Turn) -> None:
        """Delete the files that no batch needs that could still be replayed.

        It lists the files that exist, so what a crash or a failed attempt left behind is deleted as well.
        """
        last = turn.batch - RETAINED_BATCHES
        if last < 0 or last % TIDY_INTERVAL:
            return
        oldest = self.find_turn(last + 1)
        if oldest is None:
            return
        pending = {handoff.file.split("/")[1] for handoff in oldest.pending}
        for folder, last_number in (
            ("turns", last),
            ("targets", last),
            ("reports", last),
            ("handoffs", last),
            ("pairs", last),
            ("tables", oldest.table.version - 1),
        ):
            for name in self.folder.names(folder):
                number = name.partition("-")[0]
                needed = folder == "handoffs" and name in pending
                if number.isdigit() and int(number) <= last_number and not needed:
                    self.folder.delete(f"{folder}/{name}")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of one file. Damaged lines are skipped: the journal is for people, no decision depends on it."""
        texts = (self.folder.find(name) or b"").splitlines()
        return [line for text in texts if (line := _line(text)) is not None]

    def _write_table(self, stem: str, table: RoutingTable) -> str:
        data = table.to_bytes()
        name = f"{stem}-{xxhash.xxh3_64_hexdigest(data)}"
        if self.folder.find(name) != data:
            self.folder.write(name, data, durable=True)
        return name

    def _table(self, name: str) -> RoutingTable:
        return _read_table(self.folder.address, self.checkpoint_id, name)

    def _decode(self, data: bytes, kind: str, name: str) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        try:
            return files.decode(data, kind, FORMAT, self._address(name))
        except UnreadableFileError as error:
            raise LedgerError(str(error)) from error

    def _address(self, name: str) -> str:
        return f"{self.folder.address}/{name}"


def _line(text: bytes) -> dict[str, Any] | None:
    """A line of the journal; None if it is damaged."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("batch"), int) else None


def _is_before(text: bytes, batch: int) -> bool:
    line = _line(text) if text.endswith(b"\n") else None
    return line is not None and line["batch"] < batch


# The checkpoint's id is part of the cache key: a folder may be deleted and used for another checkpoint.
@lru_cache(maxsize=16)
def _read_table(address: str, checkpoint_id: str, name: str) -> RoutingTable:  # noqa: ARG001
    """A published table."""
    try:
        return RoutingTable.from_bytes(Folder(address).read(name), f"{address}/{name}")
    except FileNotFoundError as error:
        raise LedgerError(f"{address}/{name} is missing: restore it") from error
    except UnreadableFileError as error:
        raise LedgerError(str(error)) from error
