"""The state and the journal of a live operator, for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from unskew.core.hashing import buckets_of
from unskew.core.migration.protocol import Turn
from unskew.spark.versions.private import from_arrow_schema
from unskew.spark.versions.streams import check_state
from unskew.streaming.api.plain_paths import is_plain, plain_path
from unskew.streaming.operators.aggregate_operator import AggregateOperator
from unskew.streaming.storage.folder import absolute
from unskew.streaming.storage.layout import HASH, Layout
from unskew.streaming.storage.ledger import Ledger, operator_of
from unskew.streaming.storage.slot_state import SlotState
from unskew.streaming.worker.processor import ABOUT, PIECES
from unskew.streaming.worker.slot_labels import slot_labels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def journal(checkpoint: str, operator: int = 0) -> list[dict[str, Any]]:
    """One line per batch of the query that runs, or ran, on this checkpoint: loads, moves, times, decisions and why.

    Each of several chained operators has a journal; the first is 0.

    >>> import tempfile
    >>> folder, checkpoint = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> spark.range(6).selectExpr("id % 2 AS user").write.mode("overwrite").parquet(folder)
    >>> clicks = spark.readStream.schema("user long").parquet(folder)
    >>> counts = unskew.stream(clicks, "user").aggregate(n=unskew.count())
    >>> query = counts.start("memory:counted", checkpoint=checkpoint, slots=1, trigger="availableNow")
    >>> query.awaitTermination()
    >>> [(line["batch"], line["records"], line["loads"]) for line in unskew.journal(checkpoint)]
    [(0, 6, [6])]
    """
    operator_of(checkpoint, operator)
    return Ledger(absolute(checkpoint), number=operator).lines()


def state(checkpoint: str, spark: SparkSession | None = None, operator: int = 0) -> DataFrame:
    """The state after the last committed batch: a row for each key (and window), its values, its entry and slot.

    State that is on its way between slots is shown where it will arrive. `entry` is "bucket 17", or "heavy" where the
    key has a row of its own in the table.

    >>> import tempfile
    >>> folder, checkpoint = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> spark.range(6).selectExpr("id % 2 AS user").write.mode("overwrite").parquet(folder)
    >>> clicks = spark.readStream.schema("user long").parquet(folder)
    >>> counts = unskew.stream(clicks, "user").aggregate(n=unskew.count())
    >>> query = counts.start("memory:counts", checkpoint=checkpoint, slots=1, trigger="availableNow")
    >>> query.awaitTermination()
    >>> unskew.state(checkpoint).select("user", "n", "slot").orderBy("user").show()
    +----+---+----+
    |user|  n|slot|
    +----+---+----+
    |   0|  3|   0|
    |   1|  3|   0|
    +----+---+----+
    """
    from pyspark.sql import SparkSession

    checkpoint = absolute(checkpoint)
    description = operator_of(checkpoint, operator)
    spark = spark or SparkSession.active()
    check_state(spark)
    state_number = description["operators"] - 1 - operator
    ledger = Ledger(checkpoint, description["checkpoint_id"], operator, state_number)
    commits = [int(name) for name in ledger.spark.names("commits") if name.isdigit()]
    view = _View.of(description["operator"])
    if not commits:
        return spark.createDataFrame([], from_arrow_schema(view.schema))
    turn = ledger.turn(max(commits) + 1)

    def read(path: str) -> tuple[dict[int, tuple[str, bytes]], DataFrame]:
        """What the slots note about their state, and their pieces."""

        def variable(name: str) -> DataFrame:
            source = spark.read.format("statestore").option("path", path).option("operatorId", state_number)
            return source.option("stateVarName", name).option("batchId", max(commits)).load()

        rows = variable(ABOUT).select("key.label", "value.*").collect()
        pieces = variable(PIECES).select(
            F.col("key.label").alias("label"),
            F.col("user_map_key.name").alias("name"),
            F.col("user_map_value.data").alias("data"),
        )
        return {row["label"]: (row["text"], bytes(row["counts"])) for row in rows}, pieces

    if is_plain(checkpoint):
        notes, pieces = read(checkpoint)
    else:
        with plain_path(checkpoint) as path:
            notes, lazy_pieces = read(path)
            pieces = lazy_pieces.localCheckpoint()  # read now, while there is such a path
    labels = slot_labels(description["max_slots"])
    # every slot is read, also one without state: handoffs may be on their way to it
    all_labels = spark.createDataFrame([(label, None, None) for label in labels], pieces.schema)
    reader = _Reader(ledger, turn, view, notes, labels)
    return (
        pieces.unionAll(all_labels)
        .groupBy("label")
        .applyInArrow(lambda rows: reader.read(rows), from_arrow_schema(view.schema))
    )


class _View:
    """How state rows are shown."""

    def __init__(self, layout: Layout, operator: AggregateOperator | None) -> None:
        self.layout, self.operator = layout, operator
        values = operator.output if operator is not None else pa.schema([*layout.key, *layout.state])
        self.schema = pa.schema([*values, pa.field("entry", pa.string()), pa.field("slot", pa.int32())])

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> _View:
        layout = Layout.restore(description)
        is_aggregate = description["kind"] == "aggregate"
        return cls(layout, AggregateOperator.restore(description) if is_aggregate else None)

    def columns(self, rows: pa.Table, turn: Turn, slot: int) -> pa.Table:
        """State rows as columns for people."""
        if self.operator is not None:
            values = self.operator.output_rows(rows)
        else:
            values = rows.select([*self.layout.key_columns, *self.layout.values])
        hashes = rows[HASH].to_numpy()
        cells = buckets_of(hashes, len(turn.table.buckets))
        heavy = pa.array(turn.table.rows_of(hashes) >= 0)
        names = pc.binary_join_element_wise("bucket", pa.array(cells).cast(pa.string()), " ")
        entries = pc.if_else(heavy, "heavy", names)
        columns = [
            *values.columns,
            entries,
            pa.array(np.full(len(rows), slot, np.int32)),
        ]
        return pa.table(columns, schema=self.schema)


class _Reader:
    """Reads one slot out of the pieces in Spark's state store."""

    def __init__(
        self,
        ledger: Ledger,
        turn: Turn,
        view: _View,
        notes: Mapping[int, tuple[str, bytes]],
        labels: tuple[int, ...],
    ) -> None:
        self.ledger, self.turn, self.view = ledger, turn, view
        self.notes, self.labels = notes, labels

    def read(self, rows: pa.Table) -> pa.Table:
        label = rows["label"][0].as_py()
        slot = self.labels.index(label)
        pieces = dict(zip(rows["name"].to_pylist(), rows["data"].to_pylist(), strict=True))
        store = _Pieces(self.notes.get(label), pieces)
        buckets = len(self.turn.table.buckets)
        state = SlotState.load(self.view.layout, buckets, store, _NoCache())
        for handoff in self.turn.imports(slot, state.applied, state.exported):
            state.update(self.ledger.read_handoff(handoff))
        return self.view.columns(state.everything(), self.turn, slot)


class _Pieces:
    """A store to read from."""

    def __init__(self, about: tuple[str, bytes] | None, pieces: Mapping[str, bytes]) -> None:
        self._about, self._pieces = about, pieces

    def describe(self) -> tuple[str, bytes] | None:
        return self._about

    def get(self, piece: str) -> bytes:
        return self._pieces[piece]

    def note(self, text: str, counts: bytes) -> None:
        raise NotImplementedError

    def put(self, piece: str, data: bytes) -> None:
        raise NotImplementedError

    def remove(self, piece: str) -> None:
        raise NotImplementedError


class _NoCache:
    def get(self, run: str) -> None:  # noqa: ARG002 it keeps nothing
        return None

    def put(self, run: str, table: pa.Table) -> None:
        pass

    def remove(self, run: str) -> None:
        pass
