"""`unskew.attach` where it cannot watch; tests/spark/test_rest.py watches real jobs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import unskew


@pytest.mark.connect
def test_a_session_without_a_web_interface_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"no web interface: start Spark with|does not know the driver's"):
        unskew.attach(spark)


def test_an_address_that_does_not_answer_is_refused_at_once(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="does not answer"):
        unskew.attach(spark, address="http://localhost:1")


@pytest.mark.parametrize("every", [0, True, "2", 10_000])
def test_how_often_is_checked(every: object) -> None:
    with pytest.raises(ValueError, match="every is how many seconds"):
        unskew.Attached("http://localhost:1", every=every)  # type: ignore[arg-type]
