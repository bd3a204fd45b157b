"""The experiments that run on Spark, on little data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import unskew
from research.papers.dkg import prototype
from research.papers.experiment import judge
from research.papers.gedik import live as gedik_live
from research.papers.guo import live
from research.papers.kip import crawling, grouping
from research.papers.kip import live as kip_live
from research.papers.live_streams import check_counts, discard, waiting, write_windows
from research.papers.running import compute

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.papers]


def test_kip_spreads_events_better_than_hashing() -> None:
    record = compute(grouping.BY_EXPONENT, exponents=[1.0, 1.4], slots=8, records=8_000, keys=1_000)
    assert np.all(np.array(record.results["KIP"]) < record.results["Hash"])
    assert all(point["parts"]["KIP"] > 0 for point in record.times["points"])


def test_every_page_of_a_crawl_is_fetched_under_both_partitionings() -> None:
    record = compute(crawling.LAST_ROUND, pages=500, page=0.0005, slots=8, threads=[2], repetitions=1)
    (point,) = record.results
    assert sum(point["Hash rows"]) == sum(point["KIP rows"]) > 0
    assert max(point["KIP rows"]) < max(point["Hash rows"])
    # a job cannot be done before its fullest slot
    parts = record.times["points"][0]["parts"]
    assert parts["Hash 0"] >= point["Hash fullest"]
    assert parts["KIP 0"] >= point["KIP fullest"]


def test_the_prototype_of_dkg_balances_as_its_simulation_says() -> None:
    record = compute(prototype.THROUGHPUT, readings=4_000, k=[3, 5], wait=0.0, repetitions=1)
    points = record.results["points"]
    assert [p["DKG"] for p in points] == pytest.approx([p["simulated"] for p in points], abs=1e-9)
    assert max(p["DKG"] for p in points) < 15 < max(p["Modulo"] for p in points)


def test_a_wrong_answer_of_a_live_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="nothing is recorded"):
        check_counts(counted_checkpoint(tmp_path, np.array([1, 1, 2])), np.array([1, 2, 2]))


def counted_checkpoint(folder: Path, keys: Any) -> str:
    """The checkpoint of a live count of these keys."""
    source, checkpoint = folder / "in", str(folder / "checkpoint")
    source.mkdir()
    write_windows(source, [keys])
    spark = SparkSession.active()
    events = spark.readStream.schema("key long").parquet(str(source))
    stream = unskew.stream(events, "key").update(waiting(0.0), output="key long, n long", state="n long")
    stream.start(discard, checkpoint=checkpoint, slots=2, trigger="availableNow").awaitTermination()
    check_counts(checkpoint, keys)
    return checkpoint


def test_channels_grow_by_rule_under_a_function_of_gedik_and_every_call_is_counted() -> None:
    small = {"planner": ["readj"], "slots": [1, 2], "batches": 3, "unit": 200, "keys": 500, "wait": 0.0}
    record = compute(gedik_live.LIVE, **small)
    row = record.results["readj"]
    assert row["slots"] == [1, 1, 1, 1, 1, 2]
    assert 0 < row["moved"][4] < row["rows"][4]


def test_state_moves_between_batches_only_with_dr() -> None:
    small = {"slots": [3], "exponents": [1.4], "batches": 4, "unit": 300, "keys": 500, "wait": 0.0}
    record = compute(kip_live.THROUGHPUT, **small)
    plain, planned = record.results
    assert sum(plain["moved"]) == 0 < sum(planned["moved"])
    assert planned["imbalance"][-1] < plain["imbalance"][-1]


def test_the_windows_of_the_prototype_hold_every_tuple_once() -> None:
    record = compute(prototype.USAGE, readings=3_000, k=3, windows=2)
    for name in prototype.NAMES:
        assert np.sum(record.results[name]) == 4 * 1_500


def test_live_word_counts_scale_to_the_instances_that_their_rate_requires(spark: SparkSession) -> None:
    small = {"unit": 500, "most": 2, "batches": 4, "period": 2}
    record = compute(live.LATENCY, **small)
    for name in live.ALGORITHMS:
        loads = record.results[name]["loads"]
        assert [sum(window) for window in loads] == [500] * 4 + [1000] * 4
        assert (len(loads[0]), len(loads[-1])) == (1, 2)
        assert live.Windows.of(record, name).with_slots(2).throughput > 0
    assert judge(live.LATENCY, record).facts
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
