"""Which way a join should run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unskew.core.histogram import Histogram
from unskew.core.join_load import JoinLoad, join_load
from unskew.core.plan import Plan
from unskew.core.splitting.join_choice import JoinChoice, choose_way, routed_time
from unskew.core.splitting.split_plan import SplitPlan


def choice(hot: int, cores: int, hot_right: int = 1, **options: Any) -> JoinChoice:
    cold = {f"k{i}": 10 for i in range(2000)}
    sides = (
        Histogram.from_counts(cold | {"hot": hot}),
        Histogram.from_counts(dict.fromkeys(cold, 1) | {"hot": hot_right}),
    )
    load = join_load(*sides, "left", 32)
    split = SplitPlan.make(*sides, load, "left", 32)
    whole = Plan.make(load.histogram, 32, "auto", cores=cores)
    arguments = {"cores": cores, "partitions": 32, "cost": 1.3, "split_cost": 1.35, **options}
    return choose_way(load, "left", whole, split, **arguments)


def test_a_hot_key_is_split_where_it_is_the_bound() -> None:
    split = choice(40_000, cores=16)
    assert split.chosen == "split"
    assert split.way("split").time < 0.5 * min(split.way("plain").time, split.way("whole").time)
    assert split.way("split").imbalance < 1.05 < split.way("whole").imbalance
    assert "with 1 split" in split.reason


def test_few_cores_are_busy_anyway() -> None:
    assert choice(40_000, cores=1).chosen == "plain"


def test_even_keys_and_what_spark_splits_are_left_to_spark() -> None:
    even = choice(10, cores=16)
    assert even.chosen == "plain"
    assert "no key is worth splitting" in even.reason
    left = choice(40_000, cores=16, spark_splits=True)
    assert left.chosen == "plain"
    assert left.reason.startswith("Spark's adaptive execution splits")


def test_only_rows_read_cost_more_by_slot() -> None:
    cold = Histogram.from_counts(dict.fromkeys(range(2000), 10))
    load = join_load(cold, cold, "inner", 32)
    assert load.read_share == pytest.approx(40_000 / 240_000)
    loads = np.full(32, load.total / 32)
    assert routed_time(loads, load, 16, 1.3) == pytest.approx(1 + 0.3 / 6)
    # a kept plan does not say what of its load is read
    unknown = JoinLoad(load.histogram, load.hashed)
    assert routed_time(loads, unknown, 16, 1.3) == pytest.approx(1.3)


def test_spark_merges_the_partition_of_a_key_with_few_rows_and_much_output() -> None:
    as_it_is = choice(150, cores=2, hot_right=150)
    merged = choice(150, cores=2, hot_right=150, merged_share=0.5)
    assert merged.way("plain").time > 1.1 * as_it_is.way("plain").time
    assert merged.way("split") == as_it_is.way("split")


def test_the_three_are_shown_beside_each_other() -> None:
    shown = choice(40_000, cores=16)
    lines = str(shown).splitlines()
    assert [line.split("  ")[0] for line in lines[2:5]] == ["plain Spark", "whole keys", "split keys"]
    assert lines[4].endswith("<- chosen")
    assert lines[5] == shown.reason
    assert [way["way"] for way in shown.to_dict()["ways"]] == ["plain", "whole", "split"]
