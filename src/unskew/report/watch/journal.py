"""The journal of a live query, read for display: short figures of every batch, the last batch in detail, a status.

The query writes the journal, which may be old, damaged or half restored: what a line lacks is None here. Text from it
is made inert; escaping is left to the caller.
"""

from __future__ import annotations

import bisect
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias

from unskew.report.text import inert, key_label
from unskew.streaming.storage.folder import absolute
from unskew.streaming.storage.lease import Lease
from unskew.streaming.storage.ledger import Ledger, operator_of

Figure: TypeAlias = float | None

IDLE_SECONDS = 60.0
"""Without a batch for this long, a running query is shown as idle."""

FRESH_SECONDS = 0.3
"""The journal is not read again within this time: several open pages cost as much as one."""

MOST_PLACES = 1000
"""Keys whose places are remembered: a batch reports some tens of its heaviest."""

_LARGEST = 2**53
"""Larger whole numbers are not exact in a browser, and no figure of a batch is that large."""


class Batch(NamedTuple):
    """A line of the journal in short. A tuple, because ten thousand of them travel to the page."""

    batch: int
    time: Figure
    records: Figure
    late: Figure
    slots: Figure
    version: Figure
    heavy: Figure
    imbalance: Figure
    bound: Figure
    seconds: Figure
    state_rows: Figure
    state_bytes: Figure
    moved_rows: Figure
    moved_bytes: Figure
    switch: bool
    reason: str
    gain: Figure
    cost: Figure

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Batch:
        """The short figures of a line."""
        decision = line.get("decision")
        decision = decision if isinstance(decision, dict) else {}
        sink_seconds = _figure(line, "seconds", "sink")
        controller_seconds = _figure(line, "seconds", "controller") or 0.0
        return cls(
            batch=line["batch"],
            time=_figure(line, "time"),
            records=_figure(line, "records"),
            late=_figure(line, "late"),
            slots=_figure(line, "slots"),
            version=_figure(line, "version"),
            heavy=_figure(line, "heavy"),
            imbalance=_figure(line, "imbalance"),
            bound=_figure(line, "bound"),
            seconds=None if sink_seconds is None else round(sink_seconds + controller_seconds, 4),
            state_rows=_figure(line, "state", "rows"),
            state_bytes=_figure(line, "state", "bytes"),
            moved_rows=_figure(line, "moved", "rows"),
            moved_bytes=_figure(line, "moved", "bytes"),
            switch=decision.get("switch") is True,
            reason=inert(str(decision.get("reason", ""))),
            gain=_figure(decision, "gain"),
            cost=_figure(decision, "cost"),
        )


class Slot(NamedTuple):
    """A slot in the last batch."""

    slot: int
    records: Figure
    state_rows: Figure
    state_bytes: Figure


class TopKey(NamedTuple):
    """One of the heaviest keys of the last batch; `heavy` says whether the table has a row for it, None if unknown.

    `previous` is the slot in which the key was before, and `came` the batch in which it was first seen where it is now;
    both are None for a key that has been in one slot since it was first seen.
    """

    key: str
    records: Figure
    slot: Figure
    heavy: bool | None
    previous: int | None = None
    came: int | None = None


@dataclass(frozen=True)
class LatestBatch:
    """The last batch in detail."""

    slots: tuple[Slot, ...]
    top: tuple[TopKey, ...]

    @classmethod
    def of(cls, line: Mapping[str, Any], places: KeyPlaces | None = None) -> LatestBatch:
        """The details of a line, and which of its keys have moved if their places are known."""
        top = _top(line)
        return cls(_slots(line), top if places is None else tuple(places.told(key) for key in top))


class KeyPlaces:
    """Where the heaviest keys of the last batches were: their slots, and the slots before.

    It keeps the keys that were among the heaviest last, at most `MOST_PLACES`, however long the journal is.
    """

    def __init__(self) -> None:
        # key → (slot, slot before, batch in which it came), the key seen last at the end
        self._places: dict[str, tuple[Figure, int | None, int | None]] = {}

    def see(self, line: Mapping[str, Any]) -> None:
        """Take in the heaviest keys of a batch; a batch that is replayed has them in the same slots."""
        for key in _top(line):
            slot, previous, came = self._places.pop(key.key, (key.slot, None, None))
            if slot != key.slot and slot is not None and key.slot is not None:
                previous, came = int(slot), line["batch"]
            self._places[key.key] = (key.slot, previous, came)
        for oldest in list(self._places)[: max(len(self._places) - MOST_PLACES, 0)]:
            del self._places[oldest]

    def told(self, key: TopKey) -> TopKey:
        """The key with what is known of its move."""
        _, previous, came = self._places.get(key.key, (None, None, None))
        return key._replace(previous=previous, came=came)


@dataclass(frozen=True)
class Status:
    """Whether the query runs: a word for the page's style, and a text to read."""

    word: Literal["waiting", "running", "idle", "stopped", "gone"]
    text: str


@dataclass(frozen=True)
class News:
    """What is new after a position; `batches` replace those from their first number on."""

    position: str
    batches: Sequence[Batch]
    latest: LatestBatch | None
    status: Status


class JournalReader:
    """Reads the journal of a checkpoint again and again, each time only from the last batch it has read.

    A batch that is replayed replaces its line, and a checkpoint that is restored or started over may have a shorter
    journal. So lines get serial numbers here: a new or changed line gets a higher one, and a position is the highest
    that a page has received.

    Of chained operators it reads one; the first is 0.
    """

    def __init__(self, checkpoint: str, operator: int = 0) -> None:
        self.max_slots: Figure = None
        self._ledger = Ledger(absolute(checkpoint), number=operator)
        self._lease = Lease(absolute(checkpoint))
        self._token = uuid.uuid4().hex
        self._mutex = threading.Lock()
        self._checkpoint_id: str | None = None
        self._batches: list[Batch] = []
        self._serials: list[int] = []
        self._last_serial = 0
        self._last_line: dict[str, Any] = {}
        self._places = KeyPlaces()
        self._gone = False
        self._read_at = float("-inf")
        operators = operator_of(checkpoint, operator).get("operators", 1)
        which = f", operator {operator} of {operators} (counted from 0)" if operators > 1 else ""
        self.checkpoint = inert(checkpoint + which)

    def news(self, position: str = "") -> News:
        """What came after a position; everything, if the position is unknown."""
        with self._mutex:
            if time.monotonic() - self._read_at >= FRESH_SECONDS:
                self._read()
                self._read_at = time.monotonic()
            unseen = self._batches[bisect.bisect_right(self._serials, self._serial(position)) :]
            latest = LatestBatch.of(self._last_line, self._places) if unseen else None
            return News(f"{self._token}.{self._last_serial}", unseen, latest, self._status())

    def _serial(self, position: str) -> int:
        match = re.fullmatch(r"([0-9a-f]{32})\.([0-9]{1,15})", position)
        return int(match[2]) if match and match[1] == self._token else 0

    def _read(self) -> None:
        """Read on from the last line, which may have been replaced; from the start if it is gone."""
        about = self._ledger.operator()
        self._gone = about is None
        if about is None:
            return
        same = about.get("checkpoint_id") == self._checkpoint_id
        self._checkpoint_id, self.max_slots = about.get("checkpoint_id"), _figure(about, "max_slots")
        last = self._batches[-1].batch if self._batches else 0
        lines = self._ledger.lines(last)
        if self._batches and not (same and lines and lines[0]["batch"] == last):
            self._replace(0, self._ledger.lines())
        elif lines and lines[0] == self._last_line:
            self._replace(len(self._batches), lines[1:])
        else:
            self._replace(max(len(self._batches) - 1, 0), lines)

    def _replace(self, start: int, lines: Sequence[dict[str, Any]]) -> None:
        """Replace everything from index `start` on by these lines."""
        self._batches[start:] = [Batch.of(line) for line in lines]
        self._serials[start:] = range(self._last_serial + 1, self._last_serial + 1 + len(lines))
        self._last_serial += len(lines)
        if start == 0:
            self._places = KeyPlaces()
        for line in lines:
            self._places.see(line)
        if lines:
            self._last_line = lines[-1]

    def _status(self) -> Status:
        if self._gone:
            return Status("gone", "the checkpoint is gone; this was read before")
        holder = self._lease.holder()
        if not self._batches:
            return Status("waiting", "no batch yet" if holder else "no batch yet, and no query runs")
        since = self._batches[-1].time
        age = None if since is None else max(0.0, time.time() - since)
        ago = "" if age is None else f", last batch {duration(age)} ago"
        if holder is None:
            return Status("stopped", f"stopped{ago}")
        where = inert(f"process {holder.get('pid')} on {holder.get('host')}")
        if age is not None and age > IDLE_SECONDS:
            return Status("idle", f"no batch for {duration(age)}, but {where} holds the checkpoint")
        return Status("running", f"running in {where}{ago}")


def duration(seconds: float) -> str:
    """A length of time in its one or two largest units.

    >>> [duration(s) for s in (0.4, 59, 61, 3700, 200_000)]
    ['0 s', '59 s', '1 min', '1 h 1 min', '2 days']
    """
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days > 1:
        return f"{days} days"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"


def _slots(line: Mapping[str, Any]) -> tuple[Slot, ...]:
    records = {slot: _number(n) for slot, n in enumerate(_list(line, "loads"))}
    state = line.get("state")
    rows, size = (_by_slot(state, name) for name in ("by_slot", "bytes_by_slot"))
    return tuple(
        Slot(slot, records.get(slot), rows.get(slot), size.get(slot)) for slot in sorted({*records, *rows})
    )


def _by_slot(state: Any, name: str) -> dict[int, Figure]:
    pairs = [pair for pair in _list(state, name) if isinstance(pair, list) and len(pair) == 2]
    return {slot: _number(value) for slot, value in pairs if isinstance(slot, int)}


def _top(line: Mapping[str, Any]) -> tuple[TopKey, ...]:
    keys = []
    for entry, own in zip_longest(_list(line, "top"), _list(line, "top_heavy")):
        if isinstance(entry, list) and len(entry) == 3:
            key, records, slot = entry
            heavy = own if isinstance(own, bool) else None
            keys.append(TopKey(key_label(key), _number(records), _number(slot), heavy))
    return tuple(keys)


def _list(table: Any, name: str) -> list[Any]:
    value = table.get(name) if isinstance(table, dict) else None
    return value if isinstance(value, list) else []


def _figure(value: Any, *path: str) -> Figure:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return _number(value)


def _number(value: Any) -> Figure:
    is_figure = (
        isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST
    )
    return value if is_figure else None
