"""`unskew watch` on a running query, in a real browser."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import unskew
from tests.report.watch.bars import UPDATE, shown, watching_in, within
from tests.report.watch.browser import Browser
from tests.streaming.live import test_live_chain as chain
from tests.streaming.live.live import Live, drifting
from unskew.cli import app

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("UNSKEW_TEST_REMOTE")), reason="the page reads files: Connect makes no difference"
)

FIRST_CELLS = "[...document.querySelectorAll('#{} tbody tr')].map((row) => row.cells[0].textContent)"


def text(browser: Browser, name: str) -> str:
    return str(browser.evaluate(f"document.getElementById('{name}').textContent"))


def test_the_page_follows_a_running_query(spark: SparkSession, tmp_path: Path, browser: Browser) -> None:
    live = Live(spark, tmp_path, "k string, v long")
    tables = itertools.cycle(drifting(batches=12, rows=300, keys=40, exponent=1.3, change=3))
    batches = itertools.count(1)
    live.add(next(tables))
    operation = unskew.stream(live.events(), "k").aggregate(n=unskew.count(), total=unskew.sum("v"))
    policy = unskew.Policy(patience=1, cooldown=0)
    query = live.start(operation, f"parquet:{tmp_path / 'out'}", slots=2, policy=policy)

    def delay() -> float:
        """Seconds from the next batch's line in the journal until the page shows it."""
        batch = next(batches)
        live.add(next(tables))
        shown_at = shown(browser, batch)
        return shown_at - float(query.journal()[batch]["time"])

    try:
        with watching_in(browser, live.checkpoint):
            shown(browser, 0)
            browser.evaluate("window.neverReloaded = true")
            for _ in range(4):
                within(UPDATE, delay)
            assert browser.evaluate("window.neverReloaded")
            assert browser.evaluate("document.getElementById('status').dataset.word") == "running"
            lines = query.journal()
            numbers = [str(line["batch"]) for line in reversed(lines)]
            assert browser.evaluate(FIRST_CELLS.format("decisions")) == numbers[:20]
            assert browser.evaluate(FIRST_CELLS.format("keys")) == [key for key, _, _ in lines[-1]["top"]]
            migrations = sum(line["moved"]["rows"] > 0 for line in lines)
            assert browser.evaluate("document.querySelectorAll('#imbalance .migration').length") == migrations
            query.stop()
            browser.wait("document.getElementById('status').dataset.word === 'stopped'")
    finally:
        query.stop()


@pytest.mark.thorough
def test_each_operator_of_a_chain_has_its_own_page(
    spark: SparkSession, tmp_path: Path, browser: Browser
) -> None:
    live = Live(spark, tmp_path, chain.SCHEMA)
    live.add(*chain.posts(3))
    query = live.run(chain.numbered(live.events()))
    for operator, letter in ((0, "r"), (1, "t")):
        with watching_in(browser, live.checkpoint, "--operator", str(operator)):
            shown(browser, 2)
            assert f"operator {operator} of 2" in text(browser, "checkpoint")
            keys = browser.evaluate(FIRST_CELLS.format("keys"))
        assert keys == [key for key, _, _ in query.journal(operator)[-1]["top"]]
        assert {key[0] for key in keys} == {letter}

        exported = tmp_path / f"{operator}.html"
        arguments = ["watch", live.checkpoint, "--operator", str(operator), "--export", str(exported)]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        browser.open(exported.as_uri())
        browser.wait("document.querySelectorAll('#keys tbody tr').length > 0")
        assert browser.evaluate(FIRST_CELLS.format("keys")) == keys
        assert text(browser, "status").startswith("stopped")
