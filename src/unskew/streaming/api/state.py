"""The state and the journal of a live operator, for people to look at."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from unskew.core.hashing import buckets_of
from unskew.core.migration.protocol import Turn
from unskew.streaming.operators import exact_aggregates as aggregates
from unskew.streaming.operators import sketch_aggregates as sketched
from unskew.streaming.operators.aggregation import Aggregation
from unskew.streaming.operators.operator import AggregateOperator, Operator, Window
from unskew.streaming.storage.folder import absolute
from unskew.streaming.storage.ledger import Ledger, operator_of
from unskew.streaming.storage.slot_state import HASH, Layout, SlotState
from unskew.streaming.worker.processor import ABOUT, PIECES
from unskew.streaming.worker.slot_labels import slot_labels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def journal(checkpoint: str, operator: int = 0) -> list[dict[str, Any]]:
    """One line a batch of the query that runs, or ran, on this checkpoint: loads, moves, times, decisions and why.

    Of operators in a row each has a journal; the first is 0.
    """
    operator_of(checkpoint, operator)
    return Ledger(absolute(checkpoint), number=operator).lines()


def state(checkpoint: str, spark: SparkSession | None = None, operator: int = 0) -> DataFrame:
    """The state after the last committed batch: a row for each key (and window), its values, its entry and slot.

    State that is on its way between slots is shown where it will arrive. `entry` is "bucket 17", or "heavy" where the
    key has a row of its own in the table.
    """
    from pyspark.sql import SparkSession

    checkpoint = absolute(checkpoint)
    about = operator_of(checkpoint, operator)
    spark = spark or SparkSession.active()
    ledger = Ledger(checkpoint, about["identity"], operator, about.get("operators", 1) - 1 - operator)
    commits = [int(name) for name in ledger.spark.names("commits") if name.isdigit()]
    view = _View.of(about)
    if not commits:
        return spark.createDataFrame([], from_arrow_schema(view.schema))
    turn = ledger.turn(max(commits) + 1)

    def of(name: str) -> DataFrame:
        source = spark.read.format("statestore").option("path", checkpoint).option("operatorId", ledger.state)
        return source.option("stateVarName", name).option("batchId", max(commits)).load()

    rows = of(ABOUT).select("key.label", "value.*").collect()
    known = {row["label"]: (row["text"], bytes(row["counts"])) for row in rows}
    pieces = of(PIECES).select(
        F.col("key.label").alias("label"),
        F.col("user_map_key.name").alias("name"),
        F.col("user_map_value.data").alias("data"),
    )
    labels = slot_labels(about["max_slots"])
    every = spark.createDataFrame([(label, None, None) for label in labels], pieces.schema)
    reader = _Reader(ledger, turn, view, known, labels)
    return (
        pieces.unionAll(every)
        .groupBy("label")
        .applyInArrow(lambda rows: reader.read(rows), from_arrow_schema(view.schema))
    )


def described(operator: Operator) -> dict[str, Any]:
    """What `state` needs to know of an operator, as JSON can hold it."""
    layout = operator.layout
    found: dict[str, Any] = {
        "schemas": {"key": _packed(layout.key), "state": _packed(layout.state)},
        "windowed": layout.windowed,
        "expires": layout.expires,
    }
    if isinstance(operator, AggregateOperator):
        found["aggregates"] = {
            name: {"kind": type(one).__name__, **asdict(one)}
            for name, one in operator.aggregation.aggregates.items()
        }
        found["records"] = _packed(operator.aggregation.schema)
        found["window"] = None if operator.window is None else asdict(operator.window)
    return found


class _View:
    """How state rows are shown."""

    def __init__(self, layout: Layout, operator: AggregateOperator | None) -> None:
        self.layout, self.operator = layout, operator
        values = operator.output if operator is not None else pa.schema([*layout.key, *layout.state])
        self.schema = pa.schema([*values, pa.field("entry", pa.string()), pa.field("slot", pa.int32())])

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> _View:
        known = about["described"]
        key, kept = (_unpacked(known["schemas"][name]) for name in ("key", "state"))
        layout = Layout(key, kept, known["windowed"], known["expires"])
        if "aggregates" not in known:
            return cls(layout, None)
        made = {}
        for name, given in known["aggregates"].items():
            options = dict(given)
            kind = options.pop("kind")
            made[name] = (getattr(aggregates, kind, None) or getattr(sketched, kind))(**options)
        window = None if known["window"] is None else Window(**known["window"])
        return cls(layout, AggregateOperator(key, Aggregation(made, _unpacked(known["records"])), window))

    def shown(self, rows: pa.Table, turn: Turn, slot: int) -> pa.Table:
        """State rows as columns for people."""
        if self.operator is not None:
            values = self.operator.put_out(rows)
        else:
            values = rows.select([*self.layout.identity, *self.layout.values])
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
        described: Mapping[int, tuple[str, bytes]],
        labels: tuple[int, ...],
    ) -> None:
        self.ledger, self.turn, self.view = ledger, turn, view
        self.described, self.labels = described, labels

    def read(self, rows: pa.Table) -> pa.Table:
        label = rows["label"][0].as_py()
        slot = self.labels.index(label)
        pieces = dict(zip(rows["name"].to_pylist(), rows["data"].to_pylist(), strict=True))
        store = _Pieces(self.described.get(label), pieces)
        buckets = len(self.turn.table.buckets)
        kept = SlotState.load(self.view.layout, buckets, store, _NoCache())
        for handoff in self.turn.imports(slot, kept.applied):
            kept.update(self.ledger.read_handoff(handoff))
        return self.view.shown(kept.everything(), self.turn, slot)


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


def _packed(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _unpacked(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
