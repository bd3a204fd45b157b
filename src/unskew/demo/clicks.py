"""The demo's third act: a live stateful stream on local Spark whose hot keys change, hashed and with unskew.

Every record waits as a look-up would, and is counted per user. The same input runs twice: once with the table
fixed to plain hashing, once with state that moves.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.report.charts import over_time
from unskew.report.page import Card, Cards, Chart, Column, Row, Section, Table, Text

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

HASHED, MOVING = "hashing", "unskew"


@dataclass(frozen=True)
class Clicks:
    """How large the stream is, and how skewed."""

    batches: int = 7
    change: int = 4
    records: int = 2000
    users: int = 2000
    hot: int = 6
    share: float = 0.8
    wait: float = 0.0012
    slots: int = 4


@dataclass(frozen=True)
class Outcome:
    """What each run did, batch by batch: the lines of its journal, each with the seconds that the batch took."""

    clicks: Clicks
    lines: dict[str, list[dict[str, Any]]]

    @property
    def gain(self) -> float:
        """The throughput with moving state over that with hashing."""
        return self.median(HASHED) / self.median(MOVING)

    @property
    def moved(self) -> int:
        """How many keys got a new slot, with their state."""
        return sum(line["moved"]["rows"] for line in self.lines[MOVING])

    def strip(self, run: str) -> str:
        """The batches of a run as bars, in order."""
        longest = max(line["batch seconds"] for lines in self.lines.values() for line in lines[1:])
        lengths = [line["batch seconds"] / longest for line in self.lines[run][1:]]
        return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * length))] for length in lengths)

    def median(self, run: str) -> float:
        """Median seconds per batch, without the first two."""
        return float(statistics.median(line["batch seconds"] for line in self.lines[run][2:]))


def run(spark: SparkSession, clicks: Clicks, progress: Callable[[str], None] = lambda _: None) -> Outcome:
    """The stream with plain hashing, then with unskew; both final states must agree."""
    root = Path(tempfile.mkdtemp(prefix="unskew-demo-"))
    try:
        _write_input(root / "in", clicks)
        lines, states = {}, []
        for name in (HASHED, MOVING):
            progress(name)
            lines[name], state = _run_stream(spark, root, name, clicks)
            states.append(state)
        if states[0] != states[1]:
            raise RuntimeError(
                "hashing and unskew end with different states: this is a bug in unskew, please report it"
            )
        return Outcome(clicks, lines)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def section(outcome: Outcome) -> Section:
    """The stream as a section of a page."""
    clicks = outcome.clicks
    before, after = outcome.median(HASHED), outcome.median(MOVING)
    migrations = [line for line in outcome.lines[MOVING] if line["moved"]["rows"]]
    cards = [
        Card("hashing", f"{before:.1f} s", "the median batch"),
        Card("unskew", f"{after:.1f} s", "the median batch", strong=True),
        Card(
            "migrations",
            f"{len(migrations)}",
            f"the state of {sum(line['moved']['rows'] for line in migrations):,} keys moved, without a restart",
        ),
        Card("throughput", f"{before / after:.2f} ×", f"{clicks.records:,} records per batch"),
    ]
    text = (
        f"{clicks.users:,} users, {clicks.hot} of which have {clicks.share:.0%} of the records; {1000 * clicks.wait:g} "
        f"ms per record, {clicks.slots} slots; other users become hot every {clicks.change} batches. A batch takes as "
        "long as its fullest slot. Spark ties a key's state to its hash; unskew measures each batch and moves state to "
        "where there is room, while the query runs. Both runs end with the same state, key by key."
    )
    return Section(
        "A live stream: state that moves", [Cards(cards), Text(text), _balance(outcome), _times(outcome)]
    )


def _balance(outcome: Outcome) -> Chart:
    rows = _rows(outcome, "imbalance")
    rows += [
        {"series": "bound", "window": line["batch"], "value": line["bound"]} for line in outcome.lines[MOVING]
    ]
    return Chart(
        "How uneven each batch was",
        over_time(rows, series=[MOVING, HASHED], bound="bound", x_title="batch", marks=_moves(outcome)),
        _table(outcome),
        "1 is even. The dotted line is the least possible while a key stays in one slot; upright lines: state moved.",
    )


def _times(outcome: Outcome) -> Chart:
    return Chart(
        "How long each batch took",
        over_time(
            _rows(outcome, "batch seconds", since=1),
            series=[MOVING, HASHED],
            x_title="batch",
            y_title="seconds per batch",
            marks=_moves(outcome),
        ),
        _table(outcome),
        "Without the first batch, which starts the workers. Upright lines: state moved; the table gives the reasons.",
    )


def _moves(outcome: Outcome) -> list[int]:
    return [line["batch"] for line in outcome.lines[MOVING] if line["moved"]["rows"]]


def _rows(outcome: Outcome, figure: str, since: int = 0) -> list[Row]:
    return [
        {"series": run, "window": line["batch"], "value": line[figure]}
        for run, lines in outcome.lines.items()
        for line in lines[since:]
    ]


def _table(outcome: Outcome) -> Table:
    rows: list[Row] = [
        {
            "run": run,
            "batch": line["batch"],
            "imbalance": line["imbalance"],
            "bound": line["bound"],
            "seconds": line["batch seconds"],
            "moved": line["moved"]["rows"],
            "reason": line["decision"]["reason"],
        }
        for run, lines in outcome.lines.items()
        for line in lines
    ]
    columns = [
        Column("run", "run"),
        Column("batch", "batch", "{:d}"),
        Column("imbalance", "imbalance", "{:.3f}"),
        Column("bound", "bound", "{:.3f}"),
        Column("seconds", "seconds", "{:.2f} s"),
        Column("moved", "keys moved", "{:,d}"),
        Column("reason", "decision after the batch"),
    ]
    return Table(columns, rows)


def _run_stream(
    spark: SparkSession, root: Path, name: str, clicks: Clicks
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    import unskew

    events = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1).parquet(str(root / "in"))
    checkpoint = str(root / name)
    query = (
        unskew.stream(events, "user")
        .update(_look_up(clicks.wait), output="user string, n long", state="n long")
        .start(
            _discard,
            checkpoint=checkpoint,
            slots=clicks.slots,
            trigger="availableNow",
            policy=None if name == HASHED else unskew.Policy(tolerance=0.1),
        )
    )
    query.awaitTermination()
    seconds = {progress["batchId"]: progress["batchDuration"] / 1e3 for progress in query.recentProgress}
    lines = [{**line, "batch seconds": seconds[line["batch"]]} for line in query.journal()]
    state = unskew.state(checkpoint, spark).select("user", "n").toArrow()
    return lines, dict(zip(state["user"].to_pylist(), state["n"].to_pylist(), strict=True))


def _look_up(wait: float) -> Callable[[pd.DataFrame, pd.DataFrame], tuple[pd.DataFrame, pd.DataFrame]]:
    def look_up(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        import time

        time.sleep(wait * len(rows))
        states["n"] = states["n"].fillna(0) + rows.groupby(level=0).size()
        return states[["user", "n"]], states

    return look_up


def _discard(df: Any, _batch: int) -> None:
    df.write.format("noop").mode("overwrite").save()


def _write_input(folder: Path, clicks: Clicks) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    random = np.random.default_rng(7)
    shares = np.full(clicks.users, (1 - clicks.share) / (clicks.users - clicks.hot))
    shares[: clicks.hot] = clicks.share / clicks.hot
    users = np.arange(clicks.users)
    for batch in range(clicks.batches):
        if batch % clicks.change == 0:
            users = random.permutation(clicks.users)
        batch_users = users[random.choice(clicks.users, clicks.records, p=shares)]
        path = folder / f"{batch:03d}.parquet"
        pq.write_table(pa.table({"user": [f"user-{u:04d}" for u in batch_users]}), path)
        # Spark reads the oldest file first
        os.utime(path, (1e9 + batch, 1e9 + batch))
