"""Live streams on Spark whose operator waits: batch times, loads and moves as measured, and answers that are checked.

A record takes as long as it would on an instance of the paper's capacity, because its slot sleeps for that long.
Waiting needs no core, so a machine with few cores can run as many instances as the paper has. What Spark and unskew do
besides waiting does need cores, and is part of every time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import unskew

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

Keys = NDArray[np.int64]


@dataclass(frozen=True)
class Periodic(unskew.Policy):
    """A policy that requires no gain: it switches at fixed intervals, and with `every=None` only where N changes."""

    every: int | None = 1

    def decide(
        self,
        current: unskew.RoutingTable,
        candidate: unskew.RoutingTable,
        recent: Sequence[unskew.Histogram],  # noqa: ARG002
        costs: unskew.Costs,  # noqa: ARG002
        *,
        windows_since_switch: int | None = None,
    ) -> unskew.Decision:
        """Switch if the last switch was at least `every` windows ago."""
        if self.every is None:
            return unskew.Decision(False, "only where N changes")
        due = windows_since_switch is None or windows_since_switch >= self.every
        return unskew.Decision(due and not current.same_routes(candidate), f"every {self.every} windows")


@dataclass(frozen=True)
class Live:
    """How a live count by key runs: where keys go, when that changes, and the seconds that a record takes."""

    planner: str
    wait: float
    slots: int
    most: int
    policy: unskew.Policy | None = None
    scaling: unskew.LoadRange | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    first: unskew.Histogram | None = None
    """What the first table is planned from; without it keys are hashed at first."""

    @property
    def plan(self) -> unskew.Plan | None:
        """The first table."""
        if self.first is None:
            return None
        return unskew.plan(self.first, self.slots, planner=self.planner, **self.options)


def run_live(spark: SparkSession, windows: Sequence[Keys], live: Live) -> list[dict[str, Any]]:
    """Count the keys of all windows, one window per micro-batch; the journal, with the `wall` seconds of each batch.

    Fails if a key's count in the state at the end is not the number of its records.
    """
    with TemporaryDirectory(prefix="unskew-papers-") as folder:
        source, checkpoint = Path(folder, "records"), str(Path(folder, "checkpoint"))
        source.mkdir()
        write_windows(source, windows)
        records = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(source))
        query = (
            unskew.stream(records, "key")
            .update(waiting(live.wait), output="key long, n long", state="n long")
            .start(
                discard,
                checkpoint=checkpoint,
                trigger="availableNow",
                slots=live.slots,
                plan=live.plan,
                policy=live.policy,
                placement=unskew.Placement(
                    max_slots=live.most,
                    planner=live.planner,
                    options=dict(live.options),
                    scaling=live.scaling,
                ),
            )
        )
        query.awaitTermination()
        walls = {p["batchId"]: p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress}
        check_counts(checkpoint, np.concatenate(windows))
        return [{**line, "wall": walls[line["batch"]]} for line in query.journal()]


def waiting(wait: float) -> Callable[[pd.DataFrame, pd.DataFrame], tuple[pd.DataFrame, pd.DataFrame]]:
    """Count the records of each key, and sleep for `wait` seconds per record of the slot."""

    def count(rows: pd.DataFrame, states: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        time.sleep(wait * len(rows))
        states["n"] = states["n"].fillna(0) + rows.groupby(level=0).size()
        return states[["key", "n"]], states

    return count


def write_windows(folder: Path, windows: Sequence[Keys]) -> None:
    """One file per window; a stream reads files in the order of their times."""
    for number, keys in enumerate(windows):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(pa.table({"key": keys}), path)
        os.utime(path, (1e9 + number, 1e9 + number))


def discard(df: Any, _batch: int) -> None:
    """A sink that computes every row and keeps none."""
    df.write.format("noop").mode("overwrite").save()


def check_counts(checkpoint: str, keys: Keys) -> None:
    """Fail unless the state has every key once, with the number of its records."""
    state = unskew.state(checkpoint).select("key", "n").toArrow().sort_by("key")
    expected = np.unique(keys, return_counts=True)
    counted = [state[name].to_numpy() for name in ("key", "n")]
    if not all(np.array_equal(ours, right) for ours, right in zip(counted, expected, strict=True)):
        raise RuntimeError(
            f"the live stream counted {len(counted[0])} keys and {counted[1].sum()} records, where there are "
            f"{len(expected[0])} and {len(keys)}, or some key's count is wrong: nothing is recorded"
        )


def quantile(seconds: Sequence[float], records: Sequence[int], q: float) -> float:
    """The seconds that a share `q` of the records does not exceed."""
    order = np.argsort(seconds)
    at = np.searchsorted(np.cumsum(np.array(records)[order]), q * sum(records))
    return float(np.array(seconds)[order][min(int(at), len(seconds) - 1)])
