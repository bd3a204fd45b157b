"""The slot step inside Spark's own stateful operator: the only place that knows its state API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from unskew.streaming.labels import slot_labels
from unskew.streaming.ledger import Ledger
from unskew.streaming.local_cache import LocalCache
from unskew.streaming.operators import Clock, Operator
from unskew.streaming.slot_step import SlotStep

if TYPE_CHECKING:
    import pyarrow as pa

PIECES, ABOUT = "pieces", "about"


class SlotProcessor(StatefulProcessor):
    """Called once a slot and batch, with all payloads of the slot."""

    def __init__(
        self, checkpoint: str, identity: str, operator: Operator, buckets: int, max_slots: int
    ) -> None:
        self._checkpoint = checkpoint
        self._identity = identity
        self._operator = operator
        self._buckets = buckets
        self._max_slots = max_slots

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._store = _SparkStore(
            handle.getValueState(ABOUT, "text string, counts binary"),
            handle.getMapState(PIECES, "name string", "data binary"),
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Take the payloads of a batch."""
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        slot = slot_labels(self._max_slots).index(int(key[0]))
        came = pd.concat(list(rows)).sort_values("part", kind="stable")
        clock = Clock(timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs())
        step = SlotStep(Ledger(self._checkpoint, self._identity), self._operator, self._buckets)
        attempt = f"{context.stageId()}-{context.attemptNumber()}-{context.taskAttemptId()}"
        cache = LocalCache(f"{self._checkpoint}#{self._identity}")
        if batch % 100 == 0:
            cache.tidy()
        out = step.run(slot, batch, list(came["payload"]), clock, attempt, self._store, cache)
        if len(out):
            yield _frame(out)

    def close(self) -> None:
        """Nothing is held."""


class _SparkStore:
    """Spark's state store for one slot."""

    def __init__(self, about: Any, pieces: Any) -> None:
        self._about, self._pieces = about, pieces

    def describe(self) -> tuple[str, bytes] | None:
        found = self._about.get()
        return None if found is None else (found[0], bytes(found[1]))

    def note(self, text: str, counts: bytes) -> None:
        self._about.update((text, counts))

    def get(self, piece: str) -> bytes:
        found = self._pieces.getValue((piece,))
        if found is None:
            raise RuntimeError(f"the state store has lost {piece}, which the slot's description names")
        return bytes(found[0])

    def put(self, piece: str, data: bytes) -> None:
        self._pieces.updateValue((piece,), (data,))

    def remove(self, piece: str) -> None:
        self._pieces.removeKey((piece,))


def _frame(out: pa.Table) -> pd.DataFrame:
    """For Spark: pandas around the Arrow columns themselves, so that no value changes on the way."""
    return out.to_pandas(types_mapper=pd.ArrowDtype)
