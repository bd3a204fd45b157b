"""The journal of a live query as people look at it: short figures of every batch, the last batch in detail, a status.

The journal is the query's to write and may be old, damaged or half restored: whatever a line lacks is None here.
Text out of it is made inert; escaping is left to whoever prints it.
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

IDLE = 60.0
"""Seconds without a batch after which a query that runs is said to have nothing to do."""

FRESH = 0.3
"""Seconds for which a look at the journal is good enough: several open pages cost as much as one."""

_MOST = 2**53
"""Whole numbers beyond it are not exact in a browser, and no figure of a batch is that large."""


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
        decided = decision if isinstance(decision, dict) else {}
        spent = [_figure(line, "seconds", part) for part in ("sink", "controller")]
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
            seconds=None if spent[0] is None else round(spent[0] + (spent[1] or 0.0), 4),
            state_rows=_figure(line, "state", "rows"),
            state_bytes=_figure(line, "state", "bytes"),
            moved_rows=_figure(line, "moved", "rows"),
            moved_bytes=_figure(line, "moved", "bytes"),
            switch=decided.get("switch") is True,
            reason=inert(str(decided.get("reason", ""))),
            gain=_figure(decided, "gain"),
            cost=_figure(decided, "cost"),
        )


class Slot(NamedTuple):
    """A slot in the last batch."""

    slot: int
    records: Figure
    state_rows: Figure
    state_bytes: Figure


class TopKey(NamedTuple):
    """One of the heaviest keys of the last batch; `heavy` says whether the table has a row for it, if that is known."""

    key: str
    records: Figure
    slot: Figure
    heavy: bool | None


@dataclass(frozen=True)
class Latest:
    """The last batch in detail."""

    slots: tuple[Slot, ...]
    top: tuple[TopKey, ...]

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Latest:
        """The details of a line."""
        return cls(_slots(line), _top(line))


@dataclass(frozen=True)
class Status:
    """Whether the query runs, in a word for the page and in words for people."""

    word: Literal["waiting", "running", "idle", "stopped", "gone"]
    text: str


@dataclass(frozen=True)
class News:
    """What a reader at some position has not seen; `batches` replace those from their first number on."""

    position: str
    batches: Sequence[Batch]
    latest: Latest | None
    status: Status


class Watched:
    """Reads the journal of a checkpoint again and again, each time only from the last batch it knows.

    A batch that is replayed replaces its line, and a checkpoint that is restored or begun anew may have a shorter
    journal. So lines have serial numbers here: what is new or has changed gets a higher one, and a position is the
    highest that a reader has seen.

    Of operators in a row one is watched; the first is 0.
    """

    def __init__(self, checkpoint: str, operator: int = 0) -> None:
        self.max_slots: Figure = None
        self._ledger = Ledger(absolute(checkpoint), number=operator)
        self._lease = Lease(absolute(checkpoint))
        self._token = uuid.uuid4().hex
        self._guard = threading.Lock()
        self._checkpoint_id: str | None = None
        self._batches: list[Batch] = []
        self._serials: list[int] = []
        self._issued = 0
        self._last: dict[str, Any] = {}
        self._gone = False
        self._looked = float("-inf")
        operators = operator_of(checkpoint, operator).get("operators", 1)
        row = f", operator {operator} of {operators} (counted from 0)" if operators > 1 else ""
        self.checkpoint = inert(checkpoint + row)

    def news(self, position: str = "") -> News:
        """What came after a position; everything for a position that is unknown."""
        with self._guard:
            if time.monotonic() - self._looked >= FRESH:
                self._look()
                self._looked = time.monotonic()
            unseen = self._batches[bisect.bisect_right(self._serials, self._serial(position)) :]
            latest = Latest.of(self._last) if unseen else None
            return News(f"{self._token}.{self._issued}", unseen, latest, self._status())

    def _serial(self, position: str) -> int:
        found = re.fullmatch(r"([0-9a-f]{32})\.([0-9]{1,15})", position)
        return int(found[2]) if found and found[1] == self._token else 0

    def _look(self) -> None:
        """Read from the last known line on, which may have been replaced; from the start if it is gone."""
        about = self._ledger.operator()
        self._gone = about is None
        if about is None:
            return
        same = about.get("checkpoint_id") == self._checkpoint_id
        self._checkpoint_id, self.max_slots = about.get("checkpoint_id"), _figure(about, "max_slots")
        known = self._batches[-1].batch if self._batches else 0
        lines = self._ledger.lines(known)
        if self._batches and not (same and lines and lines[0]["batch"] == known):
            self._take(self._ledger.lines(), 0)
        elif lines and lines[0] == self._last:
            self._take(lines[1:], len(self._batches))
        else:
            self._take(lines, max(len(self._batches) - 1, 0))

    def _take(self, lines: Sequence[dict[str, Any]], kept: int) -> None:
        """Put these lines after the first `kept` ones."""
        self._batches[kept:] = [Batch.of(line) for line in lines]
        self._serials[kept:] = range(self._issued + 1, self._issued + 1 + len(lines))
        self._issued += len(lines)
        if lines:
            self._last = lines[-1]

    def _status(self) -> Status:
        if self._gone:
            return Status("gone", "the checkpoint is gone; this is what was read before")
        holder = self._lease.holder()
        if not self._batches:
            return Status("waiting", "no batch yet" if holder else "no batch yet, and no query runs")
        since = self._batches[-1].time
        age = None if since is None else max(0.0, time.time() - since)
        ago = "" if age is None else f", last batch {duration(age)} ago"
        if holder is None:
            return Status("stopped", f"stopped{ago}")
        where = inert(f"process {holder.get('pid')} on {holder.get('host')}")
        if age is not None and age > IDLE:
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
    found = []
    for entry, own in zip_longest(_list(line, "top"), _list(line, "top_heavy")):
        if isinstance(entry, list) and len(entry) == 3:
            key, records, slot = entry
            known = own if isinstance(own, bool) else None
            found.append(TopKey(key_label(key), _number(records), _number(slot), known))
    return tuple(found)


def _list(found: Any, name: str) -> list[Any]:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, list) else []


def _figure(found: Any, *path: str) -> Figure:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return _number(found)


def _number(value: Any) -> Figure:
    sound = isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST
    return value if sound else None
