"""The demo's live stream, with less data."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from unskew.demo import clicks as live
from unskew.report.page import Chart


@pytest.mark.thorough  # test_demo runs the whole demo
def test_the_live_stream_of_the_demo(spark: SparkSession) -> None:
    clicks = live.Clicks(batches=5, change=3, records=400, users=60, wait=0.0, slots=3)
    outcome = live.run(spark, clicks)
    assert {run: len(lines) for run, lines in outcome.lines.items()} == {live.HASHED: 5, live.MOVING: 5}
    assert all(line["version"] == 1 for line in outcome.lines[live.HASHED])
    assert outcome.lines[live.MOVING][-1]["version"] > 1
    charts = [block for block in live.section(outcome).parts if isinstance(block, Chart)]
    assert [chart.title for chart in charts] == ["How uneven each batch was", "How long each batch took"]
