"""Figures of a sample, where Spark has no sketches, in the form of those that sketches give."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from unskew.spark.versions.counting import in_sketched_form


def test_a_job_that_reads_nothing() -> None:
    for nothing in ("[]", None):
        figures = in_sketched_form({"sample": nothing, "rows": 0, "distinct": 0}, 4, 10, pa.string())
        assert figures == {"heavy": [], "buckets": [], "distinct": 0}


def test_counts_are_scaled_to_all_rows() -> None:
    rows = [{"hash": 5, "item": "NaN", "stands_for": 3.0}] * 2 + [{"hash": 2, "stands_for": 2.0}]
    figures = in_sketched_form({"sample": json.dumps(rows), "rows": 16, "distinct": 2}, 4, 10, pa.float64())
    assert [entry["count"] for entry in figures["heavy"]] == [12.0, 4.0]
    assert figures["heavy"][0]["item"] != figures["heavy"][0]["item"]
    assert figures["heavy"][1]["item"] is None
    assert {entry["item"]: entry["count"] for entry in figures["buckets"]} == {1: 12.0, 2: pytest.approx(4.0)}


def test_figures_of_sketches_stay_as_they_are() -> None:
    figures = {"heavy": [1], "buckets": [2], "distinct": 3}
    assert in_sketched_form(figures, 4, 10, pa.int64()) == figures
