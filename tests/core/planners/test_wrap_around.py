"""Wrap-around as a planner: the table shares cut keys as the cuts say."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import pytest

from unskew.core.histogram import Histogram
from unskew.core.loads import slot_loads
from unskew.core.plan import Plan, make_table


@pytest.mark.parametrize("hot", [0.1, 0.5, 0.9])
def test_the_table_gives_every_slot_the_mean(hot: float) -> None:
    others = {f"k{i}": (1 - hot) / 5000 for i in range(5000)}
    histogram = Histogram.from_counts({"hot": hot, **others}).trimmed(100)
    exact = make_table("wrap-around", histogram, 8, slack=0.0)
    assert slot_loads(exact, histogram) == pytest.approx(np.full(8, 1 / 8))
    assert int((exact.lengths - 1).sum()) <= 7
    table = make_table("wrap-around", histogram, 8)
    assert slot_loads(table, histogram).max() <= 1.02 / 8
    assert len(np.atleast_1d(table.heavy["hot"])) == ceil(hot * 8)
    assert int((table.lengths - 1).sum()) == ceil(hot * 8) - 1


def test_shares_survive_saving_and_tables_without_them_are_written_as_before(tmp_path: Path) -> None:
    histogram = Histogram.from_counts({"a": 5, "b": 2, "c": 1}, buckets=16)
    plan = Plan.make(histogram, 2, "wrap-around")
    plan.save(tmp_path / "a.plan")
    loaded = Plan.load(tmp_path / "a.plan")
    assert loaded.table == plan.table
    assert loaded.loads.tolist() == plan.loads.tolist() == [4.0, 4.0]
    assert b'"format":2' in plan.table.to_bytes().replace(b" ", b"")
    assert b'"format":1' in make_table("pkg", histogram, 2).to_bytes().replace(b" ", b"")


def test_a_slack_that_is_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="slack is the share by which a slot may exceed the mean"):
        make_table("wrap-around", Histogram.from_counts({"a": 1}, buckets=16), 2, slack=-0.1)
