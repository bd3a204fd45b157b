"""What the parts of `make bench-split` share: data with one hot key, contenders side by side, and the bars.

A case is a dictionary: contender → figures (`split_tasks.Run.record`) and whether its answer is that of "plain".
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.bars import Bar
from benchmarks.batch_spark import HOPELESS
from benchmarks.harm_log import Log
from benchmarks.harm_run import Rows, session
from benchmarks.split_tasks import Run, measured

Case = dict[str, dict[str, Any]]

_SHOWN = ("seconds", "largest_over_mean_rows", "modelled_16_cores", "modelled_64_cores", "shuffled_bytes")
"""What is printed of the figures of a contender, as far as it has them."""


@contextlib.contextmanager
def logged_session(partitions: int) -> Iterator[tuple[SparkSession, Log, Path]]:
    """A Spark of two cores with so many shuffle partitions, its event log, and a folder for data."""
    with tempfile.TemporaryDirectory(prefix="unskew-split-", ignore_cleanup_errors=True) as place:
        events = Path(place) / "events"
        events.mkdir()
        spark = session(connect=False, events=events)
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        try:
            yield spark, Log(spark, events), Path(place)
        finally:
            spark.stop()


def one_hot_key(
    spark: SparkSession, path: Path, rows: int, share: float, key: str, others: int, *columns: str
) -> DataFrame:
    """Rows of which the key "hot" has this share, `others` keys the rest, in no order, as 64 files.

    `columns` are SQL expressions of the row's number, `id`.
    """
    hot = f"pmod(xxhash64(id), 1000) < {int(share * 1000)}"
    cold = f"'k' || pmod(xxhash64(id, 1), {others})"
    spark.range(0, rows, 1, 64).selectExpr(
        f"if({hot}, 'hot', {cold}) as {key}", "id", *columns
    ).write.parquet(str(path))
    return spark.read.parquet(str(path))


def compared(
    contenders: Mapping[str, Callable[[], DataFrame]],
    log: Log,
    turns: int,
    operator: str,
    loose: Mapping[str, float] | None = None,
) -> Case:
    """The figures of DataFrames that are computed in full; the first is "plain", whose rows are right.

    `loose` are the columns that may differ by rounding, with their tolerance.
    """
    answers = {name: Rows.of(job(), loose or {}) for name, job in contenders.items()}
    figures = timed({name: _computing(job) for name, job in contenders.items()}, log, turns, operator)
    return {
        name: {**figures[name], "same_rows": answer.equals(answers["plain"])}
        for name, answer in answers.items()
    }


def timed(
    contenders: Mapping[str, Callable[[], Any]], log: Log, turns: int, operator: str
) -> dict[str, dict[str, Any]]:
    """The figures of the shortest run of each; one that is hopeless after a turn gets no other."""
    best: dict[str, Run] = {}
    for _ in range(turns):
        for name, job in contenders.items():
            fastest = min((run.seconds for run in best.values()), default=0.0)
            if name in best and best[name].seconds > HOPELESS * fastest:
                continue
            run = measured(log, job, operator)
            if name not in best or run.seconds < best[name].seconds:
                best[name] = run
    plain = best["plain"].record()["shuffled_records"]
    figures = {name: run.record() for name, run in best.items()}
    return {
        name: {**record, "copied_rows": record["shuffled_records"] - plain}
        for name, record in figures.items()
    }


def answer_bar(name: str, case: Case) -> Bar:
    """Nobody may have other rows."""
    wrong = [contender for contender, figures in case.items() if not figures["same_rows"]]
    return Bar(f"{name}: contenders with other rows", len(wrong), 0, note=", ".join(wrong))


def time_bar(name: str, case: Case) -> Bar:
    """What `auto` does, on the two cores there are, against the best of all others."""
    ratio = case["unskew"]["seconds"] / _best(case, "seconds")
    return Bar(f"{name}: time on two cores / best", ratio, 1.05, unit="×")


def split_bars(name: str, case: Case, split: str, *, most_rows: float, hot: bool) -> list[Bar]:
    """What split keys must reach: even tasks, few bytes more, and the gain on more cores if there is a `hot` key."""
    ours, plain = case[split], case["plain"]
    bars = [
        Bar(f"{name}: largest task / mean by rows", ours["largest_over_mean_rows"], most_rows, unit="×"),
        Bar(
            f"{name}: bytes / plain",
            ours["shuffled_bytes"] / max(plain["shuffled_bytes"], 1),
            1.15,
            unit="×",
        ),
    ]
    for cores in (16, 64) if hot else ():
        figure = f"modelled_{cores}_cores"
        bars += [
            Bar(f"{name}: modelled {cores} cores / Spark", ours[figure] / plain[figure], 0.5, unit="×"),
            Bar(f"{name}: modelled {cores} cores / best", ours[figure] / _best(case, figure), 0.9, unit="×"),
        ]
    return bars


def say(name: str, case: Mapping[str, Any]) -> None:
    """Print a case, or those of its profiles."""
    if "plain" not in case:
        for profile, each in case.items():
            say(f"{name}, {profile}", each)
        return
    print(f"  {name}", file=sys.stderr)
    for contender, figures in case.items():
        if isinstance(figures, Mapping):
            text = ", ".join(f"{figure} {figures[figure]:.2f}" for figure in _SHOWN if figure in figures)
            print(f"    {contender}: {text}", file=sys.stderr, flush=True)


def limit_memory(memory: str) -> None:
    """Give the Java process that will be started only so much memory, such as 600m."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {memory} pyspark-shell"


def _best(case: Case, figure: str) -> float:
    """The best of those that are not unskew."""
    return float(min(each[figure] for name, each in case.items() if not name.startswith("unskew")))


def _computing(job: Callable[[], DataFrame]) -> Callable[[], None]:
    return lambda: job().write.format("noop").mode("overwrite").save()
