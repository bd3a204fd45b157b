"""When a kept plan is refreshed, and what its journal says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.core.files import UnreadableFileError
from unskew.core.loads import migration
from unskew.core.review import JOURNAL, PlanInFile, Planning, first, resized, reviewed

PLANNING = Planning(slots=4, cores=4)


def load(hot: dict[str, float]) -> unskew.Histogram:
    return unskew.Histogram.from_counts({**{f"k{i}": 10 for i in range(400)}, **hot}, buckets=256)


KEPT = first(load({"k1": 900, "k2": 800}), PLANNING, "the first run was measured")


def hot_slot() -> dict[str, float]:
    """Two keys that the plan has in one slot, grown."""
    keys = [f"k{i}" for i in range(3, 400)]
    slots = KEPT.plan.table.slot_of(keys)
    return {"k1": 900, "k2": 800} | {str(key): 700.0 for key in np.array(keys)[slots == 0][:2]}


def test_the_same_load_keeps_the_plan() -> None:
    after = reviewed(KEPT, load({"k1": 900, "k2": 800}), PLANNING, stale=1.1)
    assert after.plan is KEPT.plan
    assert [review.decision for review in after.journal] == ["made", "kept"]
    assert after.journal[1].before == after.journal[1].after == pytest.approx(1.0, abs=0.02)


def test_a_drifted_load_refreshes_it_and_moves_little() -> None:
    histogram = load(hot_slot())
    after = reviewed(KEPT, histogram, PLANNING, stale=1.1)
    review = after.journal[-1]
    assert review.decision == "refreshed"
    assert after.plan.table.version == review.version == 2
    assert after.plan.previous == KEPT.plan.table
    assert review.before is not None
    assert review.before > 1.4
    assert review.after < 1.1
    assert review.after == pytest.approx(after.plan.imbalance, abs=0.001)
    afresh = unskew.plan(histogram, 4).table
    all_of_it = migration(KEPT.plan.table, afresh, histogram).load_share
    assert 0 < review.moved < 0.5 * all_of_it
    assert review.reason == f"imbalance {review.before:.3f}, a new plan reaches {review.after:.3f}"


def test_the_threshold_decides() -> None:
    histogram = load(hot_slot())
    assert reviewed(KEPT, histogram, PLANNING, stale=3.0).journal[-1].decision == "kept"
    assert reviewed(KEPT, histogram, PLANNING, stale=1.0).journal[-1].decision == "refreshed"


def test_a_part_of_the_rows_decides_nothing() -> None:
    for histogram in (unskew.Histogram.from_counts({"k9": 50}, buckets=256), load({}).decayed(0.0)):
        after = reviewed(KEPT, histogram, PLANNING, stale=1.0)
        assert after.plan is KEPT.plan
        assert "records are too few, the plan was made from 5,680" in after.journal[-1].reason


def test_a_load_without_skew_is_hashed_until_skew_comes() -> None:
    even = unskew.Histogram.from_counts(dict.fromkeys(range(100000), 10), buckets=4096)
    kept = first(even, PLANNING, "")
    hashed = unskew.RoutingTable.hashed(4, 4096, even.key_type)
    assert kept.plan.table.same_routes(hashed)
    assert reviewed(kept, even, PLANNING, 1.1).plan is kept.plan
    skewed = unskew.Histogram.from_counts({i: 10 + 300_000 * (i in (4, 7, 9)) for i in range(100_000)})
    after = reviewed(kept, skewed, PLANNING, 1.1)
    assert after.journal[-1].decision in ("kept", "refreshed")
    assert (after.journal[-1].decision == "refreshed") == (
        PLANNING.imbalance(hashed, skewed) > 1.1 * after.plan.imbalance
    )


def test_other_slots_are_planned_from_the_saved_load() -> None:
    after = resized(KEPT, Planning(slots=6, cores=6))
    assert after.plan.slots == 6
    assert after.plan.histogram is KEPT.plan.histogram
    assert after.journal[-1].reason == "slots=6 was passed, the plan was for 4"


def test_renamed_columns_are_the_same_key() -> None:
    key_type = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    counts = {(i, 0): 10.0 + 900 * (i < 2) for i in range(200)}
    keys = pa.array([{"a": a, "b": b} for a, b in counts], key_type)
    kept = first(unskew.Histogram.from_arrays(keys, list(counts.values()), buckets=64), PLANNING, "")
    renamed = pa.StructArray.from_arrays(keys.flatten(), names=["x", "y"])
    seen = unskew.Histogram.from_arrays(renamed, list(counts.values()), buckets=64)
    assert reviewed(kept, seen, PLANNING, 1.1).journal[-1].decision == "kept"


def test_cores_are_balanced_where_there_are_more_slots_than_cores() -> None:
    histogram = load({"k1": 2000})
    planning = Planning(slots=12, cores=2)
    plan = planning.make(histogram)
    assert planning.imbalance(plan.table, histogram) < 1.05 < plan.imbalance


def test_the_file_is_a_plan_with_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "user.plan"
    path.write_bytes(KEPT.to_bytes())
    loaded = unskew.load(path)
    assert isinstance(loaded, unskew.Plan)
    assert loaded.table == KEPT.plan.table
    again = PlanInFile.from_bytes(path.read_bytes(), "x")
    assert again.journal == KEPT.journal
    loaded.save(path)
    assert PlanInFile.from_bytes(path.read_bytes(), "x").journal == ()


def test_a_review_prints_in_one_line() -> None:
    line = str(KEPT.journal[0])
    assert line.endswith("  made, version 1: the first run was measured (4 slots, 5,680 records)")
    refreshed = str(reviewed(KEPT, load(hot_slot()), PLANNING, 1.1).journal[-1])
    assert refreshed.endswith("% of the load moved)")


def test_the_journal_stays_bounded() -> None:
    kept = KEPT
    for _ in range(JOURNAL + 5):
        kept = kept.then(kept.plan, kept.journal[-1])
    assert len(PlanInFile.from_bytes(kept.to_bytes(), "x").journal) == JOURNAL


def test_more_slots_than_buckets_are_refused() -> None:
    table = KEPT.plan.table
    odd = unskew.RoutingTable(400, table.buckets, table.keys, table.hashes, table.offsets, table.choices)
    data = unskew.Plan(odd, KEPT.plan.histogram).to_bytes()
    with pytest.raises(UnreadableFileError, match="x: 400 slots but only 256 buckets"):
        PlanInFile.from_bytes(data, "x")
