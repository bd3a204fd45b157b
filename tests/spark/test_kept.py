"""Plans that recurring jobs keep: made once, used without measuring, reviewed by what the job itself observed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from tests.spark.frames import Frames, assert_same, exchanges, importless, rows_of, setting
from tests.spark.test_bad_input import OPERATORS, apply
from tests.spark.test_measure import marked
from unskew.core import addresses
from unskew.spark import join_planning, watch

pytestmark = [pytest.mark.connect, pytest.mark.usefixtures("eager")]

REMOTE = bool(os.environ.get("UNSKEW_TEST_REMOTE"))


@importless
def size(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": rows["k"][:1], "n": [len(rows)]})


@importless
def sizes(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": pd.concat([left["k"], right["k"]])[:1], "n": [len(left) + len(right)]})


def counted(df: DataFrame, **options: Any) -> DataFrame:
    return unskew.groupBy(df, "k", **options).applyInPandas(size, "k long, n long")


def joined(df: DataFrame, **options: Any) -> DataFrame:
    return unskew.join(df, df.select("k").distinct(), "k", **options)


def cogrouped(df: DataFrame, **options: Any) -> DataFrame:
    left, right = (unskew.groupBy(side, "k", **options) for side in (df, df.limit(50)))
    return left.cogroup(right).applyInPandas(sizes, "k long, n long")


def windowed(df: DataFrame, **options: Any) -> DataFrame:
    rows, by_k = unskew.window(df, "k", **options)
    return rows.withColumn("n", F.count(F.lit(1)).over(by_k))


def collected(df: DataFrame, **options: Any) -> DataFrame:
    return unskew.groupBy(df, "k", **options).agg(F.sort_array(F.collect_list("k")).alias("ks"))


JOBS: list[Callable[..., DataFrame]] = [counted, collected, joined, cogrouped, windowed]


def rows(spark: SparkSession, hot: dict[int, int], light: int = 200) -> DataFrame:
    keys = np.concatenate([np.repeat(list(hot), list(hot.values())), np.repeat(np.arange(light), 5)])
    return spark.createDataFrame(pd.DataFrame({"k": np.random.default_rng(0).permutation(keys)})).repartition(
        3
    )


@pytest.fixture
def skewed(spark: SparkSession) -> DataFrame:
    return rows(spark, {3: 400, 5: 300})


@pytest.fixture
def kept(tmp_path: Path) -> unskew.Kept:
    return unskew.Kept(tmp_path / "k.plan")


def decisions(kept: unskew.Kept) -> list[str]:
    kept.refresh()
    return [review.decision for review in kept.journal()]


@pytest.mark.parametrize("job", JOBS)
def test_every_operator_keeps_a_plan(
    kept: unskew.Kept, skewed: DataFrame, job: Callable[..., DataFrame]
) -> None:
    expected = rows_of(job(skewed))
    for _ in range(2):
        assert rows_of(job(skewed, plan=kept, slots=4, planner="keel")) == expected
    if REMOTE and job is cogrouped:
        assert decisions(kept) == ["made"]
        return
    assert decisions(kept) == ["made", "kept"]
    made, after = kept.journal()
    assert made.records == after.records


def test_only_the_first_run_measures(skewed: DataFrame, tmp_path: Path) -> None:
    """Every read of a partition leaves a mark: the second run reads the rows as often as plain Spark does."""
    kept = unskew.Kept(tmp_path / "k.plan")

    def reads(**options: Any) -> int:
        folder = tmp_path / "marks"
        folder.mkdir(exist_ok=True)
        before = len(list(folder.iterdir()))
        counted(marked(skewed, folder), **options).toArrow()
        kept.refresh()
        return len(list(folder.iterdir())) - before

    plain = len(rows_of(skewed.groupBy("k").count())) and 3
    assert reads(plan=kept) > plain
    assert reads(plan=kept) == reads(plan=kept) == plain
    assert decisions(kept) == ["made", "kept", "kept"]


@pytest.mark.skipif(REMOTE, reason="Connect has no status tracker")
def test_a_later_run_starts_as_many_jobs_as_a_given_plan(spark: SparkSession, kept: unskew.Kept) -> None:
    context = spark.sparkContext
    df = spark.range(0, 1000, 1, 2).select(F.expr("if(id < 400, 0, id % 50)").alias("k"))

    def jobs(group: str, **options: Any) -> int:
        context.setJobGroup(group, group)
        counted(df, **options).toArrow()
        return len(context.statusTracker().getJobIdsForGroup(group))

    try:
        first = jobs("first", plan=kept)
        given = jobs("given", plan=unskew.load(kept.address))
        assert jobs("later", plan=kept) == given < first
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def test_a_drifted_load_refreshes_the_plan_for_the_next_run(
    spark: SparkSession, kept: unskew.Kept, skewed: DataFrame
) -> None:
    counted(skewed, plan=kept, slots=4).toArrow()
    plan = unskew.load(kept.address)
    assert isinstance(plan, unskew.Plan)
    light = np.arange(10, 200)
    slots = plan.table.slot_of(light)
    # on two cores, slots 0 and 1 start first: what has grown in the last slot comes on top of everything else
    drifted = rows(spark, {3: 400, 5: 300} | {int(key): 400 for key in light[slots == slots.max()][:2]})
    counted(drifted, plan=kept).toArrow()
    (review,) = kept.refresh() or kept.journal()[-1:]
    assert review.decision == "refreshed"
    assert review.before is not None
    assert review.before > 1.1 * review.after
    assert 0 < review.moved < 0.6
    after = unskew.load(kept.address)
    assert isinstance(after, unskew.Plan)
    assert after.table.version == review.version == plan.table.version + 1
    assert after.previous == plan.table
    counted(drifted, plan=kept).toArrow()
    assert decisions(kept) == ["made", "refreshed", "kept"]


def test_where_hashing_suffices_spark_does_the_work_and_is_observed(
    spark: SparkSession, kept: unskew.Kept
) -> None:
    even = spark.range(0, 30_000, 1, 2).select((F.col("id") % 10_000).alias("k"))
    for _ in range(2):
        result = windowed(even, plan=kept)
        assert exchanges(result)[-1] == "hashpartitioning"
        result.write.format("noop").mode("overwrite").save()
    assert decisions(kept) == ["made", "kept"]
    assert kept.journal()[-1].records == 30_000


def test_other_slots_are_planned_without_measuring(
    kept: unskew.Kept, skewed: DataFrame, doomed: DataFrame
) -> None:
    counted(skewed, plan=kept, slots=4).toArrow()
    poisoned = doomed.select(F.col("v").alias("k"))
    grouped = unskew.groupBy(poisoned, "k", plan=kept, slots=6, planner="keel")
    assert grouped.plan is not None
    assert grouped.plan.slots == 6
    saved = unskew.groupBy(poisoned, "k", plan=kept).options.known_plan
    assert saved is not None
    assert saved.table == grouped.plan.table
    assert kept.journal()[-1].reason == "slots=6 was passed, the plan was for 4"


def test_an_action_that_fails_or_never_comes(kept: unskew.Kept, skewed: DataFrame, doomed: DataFrame) -> None:
    counted(skewed, plan=kept).toArrow()
    counted(skewed, plan=kept)
    with pytest.raises(PySparkException, match="a job ran"):
        counted(doomed.select(F.col("v").alias("k")), plan=kept).toArrow()
    assert all(review.decision == "made" or "too few" in review.reason for review in kept.journal())
    assert kept.refresh(wait=0.1) == []


def test_only_the_first_action_is_observed(kept: unskew.Kept, skewed: DataFrame) -> None:
    counted(skewed, plan=kept).toArrow()
    result = counted(skewed, plan=kept)
    for _ in range(3):
        result.toArrow()
    assert decisions(kept) == ["made", "kept"]


def test_a_weight_is_not_observed(kept: unskew.Kept, skewed: DataFrame) -> None:
    df = skewed.withColumn("cost", F.lit(2.0))
    for _ in range(2):
        counted(df, plan=kept, weight="cost").toArrow()
    assert decisions(kept) == ["made"]


@pytest.mark.classic
def test_keys_known_by_their_hash_alone(frames: Frames, tmp_path: Path) -> None:
    kept = unskew.Kept(tmp_path / "plan")
    for _ in range(2):
        ours = unskew.groupBy(frames.left, "string", "int", plan=kept, planner="keel").agg(F.collect_set("v"))
        assert ours.count() == frames.left.groupBy("string", "int").count().count()
    assert decisions(kept) == ["made", "kept"]


@pytest.mark.classic
def test_null_keys_of_a_join_are_not_part_of_the_load(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 300, 1, 2).select(F.expr("if(id % 3 = 0, null, id % 50)").alias("k"))
    kept = unskew.Kept(tmp_path / "plan")
    for _ in range(2):
        unskew.join(df, spark.range(50).toDF("k"), "k", "left", plan=kept).toArrow()
    assert decisions(kept) == ["made", "kept"]
    made, seen = kept.journal()
    assert made.records == seen.records == 250


def test_a_plan_saved_by_hand_is_kept_from_then_on(kept: unskew.Kept, skewed: DataFrame) -> None:
    unskew.plan(unskew.measure(skewed, "k"), slots=4).save(kept.address)
    counted(skewed, plan=kept).toArrow()
    assert decisions(kept) == ["kept"]


@pytest.mark.classic
def test_runs_at_once_keep_each_others_reviews(
    spark: SparkSession, kept: unskew.Kept, skewed: DataFrame
) -> None:
    counted(skewed, plan=kept).toArrow()
    threads = [threading.Thread(target=lambda: counted(skewed, plan=kept).toArrow()) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert decisions(kept) == ["made", "kept", "kept", "kept"]


def test_the_second_of_two_first_runs_uses_the_plan_of_the_first(
    kept: unskew.Kept, skewed: DataFrame
) -> None:
    first, second = (unskew.groupBy(skewed, "k", plan=kept, planner="keel") for _ in range(2))
    assert first.plan is not None
    assert second.plan is not None
    assert second.plan.table == first.plan.table
    assert decisions(kept) == ["made"]


def damaged(kind: str, path: Path, frames: Frames) -> str:
    """Make a file that cannot be used by a key `string`, and return what the error says."""
    plan = frames.plans["string"]
    if kind == "another key type":
        frames.plans["int"].save(path)
        return "the plan is for int32 keys, but the key here is string"
    if kind == "several columns":
        frames.plans["composite"].save(path)
        return "the plan is for struct<"
    if kind == "cut short":
        path.write_bytes(plan.to_bytes()[:-100])
        return r"damaged \(checksum does not match\)"
    if kind == "too many slots":
        t = plan.table
        odd = unskew.RoutingTable(100, t.buckets, t.keys, t.hashes, t.offsets, t.choices)
        unskew.Plan(odd, plan.histogram).save(path)
        return "100 slots but only 64 buckets"
    if kind == "a page":
        path.write_text("<!doctype html><html></html>")
        return "not a file of unskew"
    if kind == "a folder":
        path.mkdir()
        return r"cannot be read \(Is a directory\)"
    if kind == "a table":
        plan.table.save(path)
        return "a routing table of unskew where a plan is expected"
    raise AssertionError(kind)


KINDS = [
    "another key type",
    "several columns",
    "cut short",
    "too many slots",
    "a page",
    "a folder",
    "a table",
]


@pytest.mark.classic
@pytest.mark.parametrize("call", OPERATORS)
@pytest.mark.parametrize("damage", KINDS)
def test_a_plan_that_cannot_be_used(
    doomed: DataFrame, frames: Frames, tmp_path: Path, damage: str, call: Callable[..., Any]
) -> None:
    path = tmp_path / "plan"
    message = damaged(damage, path, frames)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ValueError, match=message) as error:
        call(doomed, "string", plan=unskew.Kept(path))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.warns(UserWarning, match=f"{message}.*plain Spark is used instead") as warned:
        result = call(doomed, "string", plan=unskew.Kept(path, fallback="plain"))
    assert len(warned) == 1
    assert result.columns
    plain = exchanges(call(frames.left, "string", plan=unskew.Kept(path, fallback="plain")))
    assert not any("passthrough" in kind for kind in plain)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_plain_spark_gives_the_same_rows(frames: Frames, tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("<html>")
    kept = unskew.Kept(tmp_path / "plan", fallback="plain")
    with pytest.warns(UserWarning, match="not a file of unskew"):
        ours = unskew.groupBy(frames.left, "string", plan=kept).agg(F.collect_list("v").alias("l"))
    plain = frames.left.groupBy("string").agg(F.collect_list("v").alias("l"))
    assert_same(ours.select("string", F.size("l")), plain.select("string", F.size("l")))
    # no second warning
    apply(frames.left, "string", plan=kept)


@pytest.mark.classic
@pytest.mark.parametrize("call", OPERATORS)
def test_an_address_that_cannot_be_reached(
    doomed: DataFrame, tmp_path: Path, call: Callable[..., Any]
) -> None:
    (tmp_path / "file").write_text("x")
    for address, message in [
        ("foo://host/plan", "foo://host/plan: cannot be read by Spark"),
        (tmp_path / "file" / "plan", r"cannot be read \(Not a directory\)"),
        (tmp_path / "nowhere" / "plan", "there is no folder .*nowhere: create it first"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(doomed, "string", plan=unskew.Kept(address))


def test_options_of_a_kept_plan() -> None:
    for address, options, message in [
        ("", {}, "a kept plan needs the address of its file, not ''"),
        (7, {}, "a kept plan needs the address of its file, not 7"),
        ("x", {"stale": 0.9}, "stale is a factor of 1 or more, such as 1.1, not 0.9"),
        ("x", {"fallback": "hash"}, "fallback is 'error' or 'plain', not 'hash'"),
    ]:
        with pytest.raises(ValueError, match=message):
            unskew.Kept(address, **options)  # type: ignore[arg-type]


@pytest.mark.classic
def test_a_plan_that_cannot_be_saved(
    skewed: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(addresses.files, "write", refuse)
    with pytest.raises(ValueError, match=r"k\.plan: the plan cannot be saved: .*Permission denied"):
        counted(skewed, plan=unskew.Kept(tmp_path / "k.plan"))
    with pytest.warns(UserWarning, match="the plan cannot be saved"):
        result = counted(skewed, plan=unskew.Kept(tmp_path / "k.plan", fallback="plain"))
    assert result.count() == 200


@pytest.mark.classic
def test_many_dataframes_that_never_run(
    kept: unskew.Kept, skewed: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted(skewed, plan=kept).toArrow()
    monkeypatch.setattr(watch, "MOST", len(watch._pending) + 2)
    monkeypatch.setattr(watch, "BRIEFLY", 0.0)
    for _ in range(3):
        result = counted(skewed, plan=kept)
    assert result.count() == 200
    assert kept.refresh(wait=0.1) == []


SCRIPT = """
import sys
import pandas as pd
from tests.spark.session import make_session
import unskew

def size(rows):
    return pd.DataFrame({"k": rows["k"][:1], "n": [len(rows)]})

spark = make_session()
df = spark.range(0, 1000, 1, 2).selectExpr("if(id < 400, 0, id % 50) as k")
kept = unskew.Kept(sys.argv[1])
for _ in range(2):
    unskew.groupBy(df, "k", plan=kept, slots=4).applyInPandas(size, "k long, n long").toArrow()
unskew.groupBy(df, "k", plan=kept)
if sys.argv[2] == "stop":
    spark.stop()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["stop", "leave"])
def test_a_process_ends_with_its_review_saved(own_spark: None, tmp_path: Path, end: str) -> None:
    kept = unskew.Kept(tmp_path / "k.plan")
    subprocess.run([sys.executable, "-c", SCRIPT, str(kept.address), end], check=True, timeout=300)
    assert [review.decision for review in kept.journal()] == ["made", "kept"]


def test_a_kept_plan_of_a_join_knows_which_part_of_the_load_is_rows_read(
    spark: SparkSession, kept: unskew.Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only rows read cost more by slot: else a join that emits many would be left to Spark under a kept plan."""
    loads = []
    monkeypatch.setattr(join_planning, "worth_routing", lambda _, load, *others: loads.append(load))
    left, right = (rows(spark, {3: hot}, light=0) for hot in (100, 10))
    with setting(spark, autoBroadcastJoinThreshold="-1"):
        unskew.join(left, right, "k", plan=kept, sample=None)
    assert [load.read_share for load in loads] == [pytest.approx(110 / 1110)]
