"""The experiments that run on Spark, on little data."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession

from research.papers.dkg import prototype
from research.papers.experiment import judge
from research.papers.guo import live
from research.papers.kip import crawling, grouping
from research.papers.running import compute

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.papers]


def test_kip_spreads_events_better_than_hashing() -> None:
    record = compute(grouping.BY_EXPONENT, exponents=[1.0, 1.4], slots=8, records=8_000, keys=1_000)
    assert np.all(np.array(record.results["KIP"]) < record.results["Hash"])
    assert all(point["parts"]["KIP"] > 0 for point in record.times["points"])


def test_every_page_of_a_crawl_is_fetched_under_both_partitionings() -> None:
    record = compute(crawling.LAST_ROUND, pages=500, page=0.0005, slots=8)
    assert sum(record.results["Hash records"]) == sum(record.results["KIP records"]) > 0
    assert record.results["KIP"] < record.results["Hash"]


def test_the_prototype_of_dkg_balances_as_its_simulation_says() -> None:
    record = compute(prototype.THROUGHPUT, readings=4_000, k=[3, 5])
    assert record.results["DKG"] == pytest.approx(record.results["simulated"], abs=1e-9)
    assert max(record.results["DKG"]) < 15 < max(record.results["Modulo"])


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
