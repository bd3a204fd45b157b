"""Step 3 of starting a query: its operators as a DataFrame, and what runs after each of its batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from unskew.spark.keys import column
from unskew.spark.versions.private import from_arrow_schema
from unskew.streaming.driver.callback import Callback
from unskew.streaming.driver.checkpoint import Checkpoint
from unskew.streaming.driver.controller import Controller
from unskew.streaming.driver.operator_spec import OperatorSpec
from unskew.streaming.driver.resolve import Resolved
from unskew.streaming.operators.operator import record_column
from unskew.streaming.storage.layout import WINDOW
from unskew.streaming.storage.ledger import Ledger
from unskew.streaming.worker.packing import SPARK_PACKED, Packer
from unskew.streaming.worker.processor import SlotProcessor, flat

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class BuiltQuery:
    """What Spark is to run: the rows that the last operator emits, and the callback of every batch."""

    rows: DataFrame
    callback: Callback
    output_mode: str


def build(resolved: Resolved, checkpoint: Checkpoint) -> BuiltQuery:
    """The operators one after the other, each with its ledger."""
    specs, is_chain = resolved.specs, len(resolved.specs) > 1
    output_mode = "append" if is_chain else "update"
    steering = replace(resolved.steering, max_slots=checkpoint.max_slots)
    rows, controllers = specs[0].input, []
    for number, spec in enumerate(specs):
        ledger = checkpoint.ledgers[number]
        upstream = specs[number - 1] if number and resolved.joint is not None else None
        rows = _emitted_rows(
            spec, rows, ledger, resolved.buckets, checkpoint.max_slots, output_mode, upstream
        )
        keys = spec.keys
        timed = spec.time_mode == "EventTime"
        controllers.append(Controller(ledger, keys.names, keys.type, resolved.buckets, steering, timed))
    fence = checkpoint.lease.fence
    callback = Callback(controllers, resolved.sink, resolved.persist, resolved.joint, fence)
    return BuiltQuery(rows, callback, output_mode)


def _emitted_rows(
    spec: OperatorSpec,
    events: DataFrame,
    ledger: Ledger,
    buckets: int,
    max_slots: int,
    output_mode: str,
    upstream: OperatorSpec | None,
) -> DataFrame:
    """Records → payloads → slots → the rows that the operator emits.

    With `upstream` the pairs of a record's key there and here are counted on the way.
    """
    operator, schema = spec.operator, from_arrow_schema(spec.operator.output)
    if spec.watermark is not None:
        assert spec.time is not None
        events = events.withWatermark(spec.time, spec.watermark)
    columns: list[Column] = [
        spec.keys.hash(),
        *spec.keys.columns(),
        *(column(name) for name in spec.records.names),
    ]
    key_hash_before = None if upstream is None else spec.key_hash_before(upstream)
    if key_hash_before is not None:
        columns.append(key_hash_before)
    packer = Packer(
        ledger, operator, _packed_records(spec), max_slots, key_hash_before is not None, _late_lag(spec)
    )
    # plain names: mapInArrow reads a dot in a column's name as a field of a struct; the packer knows the order
    numbered = [expression.alias(f"c{i}") for i, expression in enumerate(columns)]
    packed = events.select(*numbered).mapInArrow(packer, SPARK_PACKED)
    windowed = operator.layout.windowed
    travelling = from_arrow_schema(flat(operator.output, windowed=windowed))
    emitted = packed.groupBy(F.col("label")).transformWithStateInPandas(
        SlotProcessor(ledger, operator, buckets, max_slots, spec.time_mode),
        outputStructType=travelling,
        outputMode=output_mode.capitalize(),
        timeMode=spec.time_mode,
    )
    if not windowed:
        return emitted
    window = F.struct(column("window.start").alias("start"), column("window.end").alias("end"))
    return emitted.select(*(window.alias(name) if name == WINDOW else column(name) for name in schema.names))


def _late_lag(spec: OperatorSpec) -> int | None:
    """How many batches old the watermark is that says which records are late; None without event time."""
    if spec.time_mode != "EventTime":
        return None
    allows_chains = spec.input.sparkSession.conf.get(
        "spark.sql.streaming.statefulOperator.allowMultiple", "true"
    )
    return 1 if allows_chains == "true" else 0  # as Spark chooses for its own operators


def _packed_records(spec: OperatorSpec) -> pa.Schema:
    """The columns of records as the packer gets them: the hash, the key, then what the operator reads."""
    keys = (pa.field(f"key.{i}", f.type) for i, f in enumerate(spec.operator.layout.key))
    records = (f.with_name(record_column(f.name)) for f in spec.records)
    return pa.schema([pa.field("hash", pa.int64()), *keys, *records])
