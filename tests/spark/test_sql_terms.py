"""Terms as SQL text and as columns are the same expressions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from unskew.spark.sql_terms import (
    Term,
    as_column,
    at_most,
    call,
    equal,
    first_of,
    get,
    low_bits,
    minus,
    named,
    remainder,
)

NUMBERS = [-(2**63), -1025, -1, 0, 1, 5, 7, 2**31, 2**53 + 1, 2**63 - 1]

OF_ONE: dict[str, Callable[[Term], Term]] = {
    "call": lambda n: call("xxhash64", n),
    "named": lambda n: named(n, "other"),
    "at_most": lambda n: at_most([call("bit_count", n), call("bit_count", n)], 6),
    "minus": lambda n: minus(call("bit_count", n)),
    "equal": lambda n: equal(n, call("abs", call("bit_count", n))),
    "get": lambda n: get("array(7, 8, 9)", call("bit_count", n)),
    "low_bits": lambda n: low_bits(n, 11, 1023),
    "remainder by a power of two": lambda n: remainder(low_bits(n, 1, 2**20 - 1), 8),
    "remainder": lambda n: remainder(low_bits(n, 1, 2**20 - 1), 7),
    "first_of": lambda n: first_of([(equal(n, "0"), "-1"), (at_most([call("bit_count", n)], 3), n)], "2"),
}


@pytest.mark.parametrize("term", OF_ONE.values(), ids=OF_ONE)
def test_text_and_columns_give_the_same(spark: SparkSession, term: Callable[[Term], Term]) -> None:
    df = spark.createDataFrame([(number,) for number in NUMBERS], "n bigint")
    text, column = term("n"), term(F.col("n"))
    assert isinstance(text, str)
    assert not isinstance(column, str)
    columns = [each.alias(name) for each, name in ((as_column(text), "text"), (column, "column"))]
    both = df.select(*columns)
    assert both.schema["text"].dataType == both.schema["column"].dataType
    rows = both.toArrow()
    assert rows["text"].to_pylist() == rows["column"].to_pylist()
    assert len(set(rows["text"].to_pylist())) > 1
