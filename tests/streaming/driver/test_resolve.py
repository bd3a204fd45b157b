"""Options that are refused before anything is written; no Spark is needed for that."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from unskew.core.migration.policy import Policy
from unskew.streaming.driver.operator_spec import OperatorSpec
from unskew.streaming.driver.placement import Placement
from unskew.streaming.driver.resolve import Resolved, resolve
from unskew.streaming.driver.sinks import Memory, Parquet, console
from unskew.streaming.operators import aggregates as agg
from unskew.streaming.operators.aggregate_operator import AggregateOperator
from unskew.streaming.operators.aggregation import Aggregation

KEY = pa.schema([("k", pa.string())])
RECORDS = pa.schema([("k", pa.string()), ("v", pa.int64())])


def resolved(sink: Any, *output: str) -> Resolved:
    """The options of a query whose operators emit these columns besides the key, one operator for each."""
    nothing: Any = None
    operators = [AggregateOperator(KEY, Aggregation({name: agg.count()}, RECORDS)) for name in output]
    specs = [OperatorSpec(nothing, nothing, None, None, operator, RECORDS) for operator in operators]
    return resolve(
        specs,
        sink,
        slots=2,
        plan=None,
        policy=Policy(),
        placement=Placement(planner="keel"),
        trigger=None,
        name=None,
        persist=False,
    )


@pytest.mark.parametrize("sink", ["parquet:/out", "memory:totals", Parquet("/out"), Memory("totals")])
@pytest.mark.parametrize("name", ["batch", "Batch"])
def test_a_column_that_the_sink_would_hide_is_refused(sink: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"a column '{name}', .*: rename the column, or pass a function"):
        resolved(sink, name)


def test_a_column_called_batch_is_fine_where_no_sink_hides_it() -> None:
    for sink in ("console", console, "kafka:host:9092/topic", lambda df, batch: None):
        resolved(sink, "batch")
    resolved("parquet:/out", "batch", "n")  # only the first of two operators emits it
    resolved("memory:totals", "batches")
