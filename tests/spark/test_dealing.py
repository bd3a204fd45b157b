"""A task that runs again sends every row of a split key where it sent it before, and equal rows are spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.frames import Frames
from unskew.core.routing import RoutingTable
from unskew.spark.dealing import _by_lot, dealt, dealt_out, has_fixed_order
from unskew.spark.explained import explained
from unskew.spark.keys import key_columns

ROWS = 9000
SHARES = [0.6, 0.1, 0.3]
TABLE = RoutingTable.build(4, np.arange(16) % 4, ["hot"], [[0, 1, 3]], heavy_shares=[SHARES])

# zeros are computed: Spark's optimizer takes literals of both signs for equal
CONTENTS = {
    "equal rows": "1 as v",
    "rows of few kinds": "id % 3 as v",
    "zeros of both signs": "0.0d * (1000 - id % 4500) as v",
    "zeros inside a struct": "named_struct('a', 0.0d * (1000 - id % 4500)) as v",
    "strings equal by collation": "if(id % 4500 < 1000, 'a', 'A') collate UTF8_LCASE as v",
    "maps": "map(id % 3, 1.5d) as v",
    "maps inside a struct": "named_struct('a', map(id % 3, 1)) as v",
}


def rows_with(spark: SparkSession, content: str) -> DataFrame:
    """Two partitions, four fifths of the rows with the key "hot"."""
    return spark.range(0, ROWS, 1, 2).selectExpr("if(id % 5 = 0, 'k' || id % 7, 'hot') as k", content)


def arriving(df: DataFrame, reverse: bool) -> DataFrame:
    """The rows in the same partitions, which arrive as they come, or in reverse order."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches)
        order = np.arange(table.num_rows)
        yield from table.take(pa.array(order[::-1] if reverse else order)).to_batches()

    return df.mapInArrow(pass_on, df.schema)


def outcome(df: DataFrame) -> Counter[str]:
    """How many equal rows, by their text, each map task sends to each slot."""
    rows = df.select(F.concat_ws("|", F.spark_partition_id(), *(F.col(c).cast("string") for c in df.columns)))
    return Counter(rows.toArrow()[0].to_pylist())


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_the_order_in_which_rows_arrive_does_not_matter(spark: SparkSession, content: str) -> None:
    df = rows_with(spark, content)
    keys = key_columns(df, "k")
    outcomes = [outcome(dealt(arriving(df, reverse), keys, TABLE, "slot")) for reverse in (False, True)]
    assert outcomes[0] == outcomes[1]
    hot = [row for row in outcomes[0].elements() if "|hot|" in row]
    by_slot = Counter(int(row[-1]) for row in hot)
    if (
        content == CONTENTS["maps inside a struct"]
    ):  # Spark cannot tell these rows apart: those of one task go together
        return
    assert [by_slot[slot] / len(hot) for slot in (0, 1, 3)] == pytest.approx(SHARES, abs=0.05)


def test_rows_numbered_as_they_arrive_would_go_elsewhere(spark: SparkSession) -> None:
    """Guards the test above."""
    df = rows_with(spark, CONTENTS["rows of few kinds"])
    keys, position = key_columns(df, "k"), "monotonically_increasing_id()"
    first, second = (
        outcome(_by_lot(arriving(df, reverse), keys, TABLE, "slot", position)) for reverse in (False, True)
    )
    assert first != second


def test_spark_keeps_the_sort_that_numbering_depends_on(spark: SparkSession, frames: Frames) -> None:
    read = rows_with(spark, "id as v")
    assert has_fixed_order(read)
    assert has_fixed_order(frames.left)
    shuffled = read.repartition(3, "v")
    assert not has_fixed_order(shuffled)
    sorts = []
    for df in (read, shuffled):
        # a consumer that sorts again must not make this sort look needless
        plan = explained(dealt_out(df, key_columns(df, "k"), TABLE, "slot").sortWithinPartitions("k"))
        assert plan is not None
        below = plan.physical.below(("Sort", "Project"))
        assert below.name == "Exchange"
        sorts.append(below.count("Sort"))
    assert sorts == [0, 1]
