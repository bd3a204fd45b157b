"""Split plans: what they promise holds for simulated joins, and a file that cannot be right is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unskew
from unskew.core import files
from unskew.core.histogram import Histogram
from unskew.core.join_load import JoinType, join_load
from unskew.core.splitting.split_plan import SplitPlan

KINDS: list[JoinType] = ["inner", "left", "right", "full", "semi", "anti"]

counts = st.dictionaries(st.integers(0, 40), st.integers(1, 400), max_size=30)


def planned(
    left: dict[int, int],
    right: dict[int, int],
    kind: JoinType,
    slots: int,
    buckets: int = 64,
    **options: float,
) -> SplitPlan:
    sides = [Histogram.from_counts(side, buckets=buckets, key_type=pa.int64()) for side in (left, right)]
    load = join_load(sides[0], sides[1], kind, slots)
    return SplitPlan.make(sides[0], sides[1], load, kind, slots, **options)


def slots_of(plan: SplitPlan, key: int, part: int, side: int) -> list[int]:
    """Where a row of this side goes: it is copied along its row or its column of the grid."""
    grid = plan.grids.get(key)
    if grid is None:
        return plan.table.slot_of(pa.array([key], pa.int64())).tolist()
    return grid[part % len(grid)] if side == 0 else [row[part % len(row)] for row in grid]


@given(counts, counts, st.sampled_from(KINDS), st.integers(1, 9))
def test_every_pair_meets_on_exactly_one_slot(
    left: dict[int, int], right: dict[int, int], kind: JoinType, slots: int
) -> None:
    plan = planned(left, right, kind, slots)
    # keys that are not split are on one slot, since the table is a function
    for key in left.keys() & right.keys() & plan.grids.keys():
        for i in range(min(left[key], 9)):
            for j in range(min(right[key], 9)):
                both = set(slots_of(plan, key, i, 0)) & set(slots_of(plan, key, j, 1))
                assert len(both) == 1


@given(counts, counts, st.sampled_from(KINDS), st.integers(1, 9), st.floats(0, 0.5))
def test_loads_and_copies_are_as_predicted(
    left: dict[int, int], right: dict[int, int], kind: JoinType, slots: int, most_copied: float
) -> None:
    plan = planned(left, right, kind, slots, most_copied=most_copied)
    loads, copied = np.zeros(slots), [0.0, 0.0]
    for key in left.keys() | right.keys():
        n, m = left.get(key, 0), right.get(key, 0)
        emitted = {
            "inner": n * m,
            "left": n * (m or 1),
            "right": m * (n or 1),
            "full": n * m or n + m,
            "semi": n if m else 0,
            "anti": 0 if m else n,
        }[kind]
        grid = plan.grids.get(key) or [slots_of(plan, key, 0, 0)]
        a, b = len(grid), len(grid[0])
        for slot in (slot for row in grid for slot in row):
            loads[slot] += n / a + m / b + emitted / (a * b)
        copied[0] += n * (b - 1)
        copied[1] += m * (a - 1)
    np.testing.assert_allclose(plan.loads, loads, atol=1e-6)
    np.testing.assert_allclose(plan.copied, copied)
    assert sum(copied) <= most_copied * (sum(left.values()) + sum(right.values())) + 1e-6


@pytest.mark.parametrize("slots", [2, 6, 16, 64])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_one_hot_key_is_no_bound(kind: JoinType, share: float, slots: int) -> None:
    rows, cold = 100_000, 5000
    left = {key: int(rows * (1 - share) / cold) for key in range(1, cold)} | {0: int(rows * share)}
    right = dict.fromkeys(range(cold), 1)
    if kind == "right":
        left, right = right, left
    plan = planned(left, right, kind, slots, buckets=4096)
    assert plan.imbalance < 1.05
    assert plan.copied_share < 0.01


@pytest.mark.parametrize("hot", [1, 4, 40])
def test_slots_are_even_although_a_sample_missed_the_hot_key_on_one_side(hot: int) -> None:
    """Few rows of a side are not in a sample of it, but each multiplies what the hot key emits."""
    slots, rows, cold = 16, 50_000, range(1, 50_001)
    plan = planned(dict.fromkeys(cold, 1) | {0: rows}, dict.fromkeys(cold, 1) | {0: 1}, "inner", slots, 4096)
    whole = plan.table.slot_of(pa.array(cold, pa.int64()))
    loads = 3.0 * np.bincount(whole, minlength=slots)
    grid = np.array(plan.grids[0]).ravel()
    loads[grid] += rows * (1 + hot) / len(grid)
    assert loads.max() / loads.mean() < 1.05


def test_many_to_many_output_is_split_on_both_sides() -> None:
    cold = dict.fromkeys(range(1, 10_000), 20)
    plan = planned(cold | {0: 5000}, cold | {0: 3000}, "inner", 16, buckets=1024)
    assert plan.rows[0] > 1
    assert plan.columns[0] > 1
    assert plan.imbalance < 1.05
    assert 0 < plan.copied_share <= 0.1


def test_only_keys_that_may_be_split_are() -> None:
    sides = [Histogram.from_counts({0: 2000, 1: 1900, 2: 500}, buckets=64) for _ in range(2)]
    load = join_load(sides[0], sides[1], "full", 8)
    splits = [
        SplitPlan.make(sides[0], sides[1], load, "full", 8, most_copied=9.0, only=only).keys.to_pylist()
        for only in (None, sides[0].hashes[:0], sides[0].hashes[:2])
    ]
    assert splits == [[0, 1, 2], [], [0, 1]]


def test_a_plan_is_saved_and_loaded(tmp_path: Path) -> None:
    plan = planned({0: 900, 1: 50}, {0: 3, 1: 2}, "left", 4)
    plan.save(tmp_path / "join.plan")
    again = unskew.SplitPlan.load(tmp_path / "join.plan")
    assert repr(again) == repr(plan)
    assert (again.grids, again.table, again.copied) == (plan.grids, plan.table, plan.copied)
    assert again.loads.tolist() == plan.loads.tolist()
    with pytest.raises(ValueError, match=r"pass its path to unskew\.join"):
        unskew.load(tmp_path / "join.plan")


def test_an_empty_side_needs_no_grid() -> None:
    plan = planned({}, {}, "inner", 4)
    assert (len(plan.keys), plan.imbalance, plan.copied_share) == (0, 1.0, 0.0)


WRONG = {
    "more cells than slots": ({"rows": np.array([5])}, "5 × 1 cells, but a grid has 1 to 4 cells on 4 slots"),
    "one slot twice": ({"cells": np.array([0, 1, 1, 2], np.int32)}, "not on as many distinct slots"),
    "a slot that there is not": (
        {"cells": np.array([0, 1, 2, 4], np.int32)},
        "names slot 4, but slots are 0..3",
    ),
    "no cell": ({"rows": np.array([0]), "cells": np.array([], np.int32)}, "0 × 1 cells"),
    "a cell too many": ({"cells": np.array([0, 1, 2, 3, 0], np.int32)}, "5 slots for 4 cells"),
    "no hash": ({"hashes": np.array([], np.int64)}, "1 split keys, 0 hashes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_grid_that_cannot_be_right_is_refused_when_made_and_when_loaded(case: str, tmp_path: Path) -> None:
    changes, message = WRONG[case]
    plan = planned({0: 900}, {0: 3}, "left", 4)
    assert plan.grids == {0: [[0], [1], [2], [3]]}
    with pytest.raises(ValueError, match=message):
        replace(plan, **changes)
    if case in ("a cell too many", "no hash"):
        return  # such columns do not make a file
    wrong = SplitPlan.from_bytes(plan.to_bytes())
    for name, value in changes.items():
        object.__setattr__(wrong, name, value)
    data = wrong.to_bytes() if "rows" not in changes else _with_rows(wrong)
    (tmp_path / "wrong.plan").write_bytes(data)
    with pytest.raises(files.UnreadableFileError, match=rf"wrong\.plan: .*{message}"):
        SplitPlan.load(tmp_path / "wrong.plan")


def _with_rows(plan: SplitPlan) -> bytes:
    """A file whose list of slots is as long as the grid claims."""
    cells = np.arange(int((plan.rows * plan.columns).sum()), dtype=np.int32)
    object.__setattr__(plan, "cells", cells)
    plan.__dict__.pop("offsets", None)
    return plan.to_bytes()


def test_plans_are_refused_for_other_joins() -> None:
    left = planned({0: 900}, {0: 3}, "left", 4)
    left.check_kind("inner")
    left.check_kind("anti")
    for kind in ("right", "full"):
        with pytest.raises(ValueError, match=f"join of type '{kind}'|a full join splits only"):
            left.check_kind(kind)
    with pytest.raises(ValueError, match="the plan is for int64 keys, but the key here is string"):
        left.check(pa.string())
    with pytest.raises(ValueError, match="the plan is for 4 slots, but slots=5"):
        left.check(pa.int64(), 5)


@pytest.mark.parametrize("most_copied", [-0.1, float("nan"), True, "0.1"])
def test_a_bound_that_is_no_share_is_refused(most_copied: float) -> None:
    with pytest.raises(ValueError, match="most_copied is a share"):
        planned({0: 900}, {0: 3}, "left", 4, most_copied=most_copied)
