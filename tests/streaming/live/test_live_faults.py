"""Live queries that were interrupted, and files that were damaged or deleted; `make test-faults` found these cases."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.streaming.live.live import Live
from tests.streaming.live.test_live import by_key, totals


@pytest.fixture
def live(spark: SparkSession, tmp_path: Path) -> Live:
    live = Live(spark, tmp_path, "k string, v long")
    live.add(pa.table({"k": ["a", "b"], "v": [1, 2]}))
    return live


def test_a_driver_that_dies_while_it_creates_the_checkpoint_can_start_again(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSKEW_FAILPOINT", "begun@0=raise")
    monkeypatch.setenv("UNSKEW_FAILED", str(tmp_path))
    with pytest.raises(RuntimeError, match="failpoint begun@0"):
        live.run(totals(live, "k"))
    live.run(totals(live, "k"))
    assert by_key(live.output(0), "k") == {"a": (1, 1), "b": (1, 2)}


def test_a_missing_operator_file_is_named(live: Live, tmp_path: Path) -> None:
    live.run(totals(live, "k"))
    (tmp_path / "checkpoint" / "unskew" / "operator").unlink()
    with pytest.raises(ValueError, match="unskew/operator is missing: restore it"):
        live.run(totals(live, "k"))


def test_damaged_figures_of_earlier_batches_do_not_stop_a_query(live: Live, tmp_path: Path) -> None:
    live.run(totals(live, "k"))
    ledger = tmp_path / "checkpoint" / "unskew"
    (ledger / "reports" / "0" / "0").write_bytes(b"damaged")
    journal = ledger / "journal" / "00000000"
    journal.write_text(journal.read_text().replace('"moved"', '"mowed"'))
    live.add(pa.table({"k": ["a"], "v": [1]}))
    live.run(totals(live, "k"))
    assert by_key(live.output(1), "k") == {"a": (2, 2)}
