"""Our own: a live stream of call records whose number of channels grows by rule, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unskew
from research.papers.drawing import styles
from research.papers.experiment import Basis, Experiment, Fact, Record, Run, Timed, number, shape
from research.papers.generators import random_keys
from research.papers.live_streams import Keys, Live, Periodic, run_live
from research.workloads import zipf
from unskew.core.histogram import Floats, Histogram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HASHED = {"uniform": "universal", "consistent": "ring"}
"""The names that the paper gives to what is a planner here."""

OURS = ("scan", "redist", "readj")


def calls(run: Run) -> list[Keys]:
    """Callers, window by window; a window has `unit` calls for every channel that it needs."""
    parameters = run.parameters
    random = np.random.default_rng(run.seed)
    callers, shares = random_keys(parameters["keys"], random), zipf(parameters["keys"], parameters["z"])
    sizes = np.repeat(parameters["slots"], parameters["batches"]) * parameters["unit"]
    return [callers[random.choice(len(callers), size, p=shares)] for size in sizes.tolist()]


def grown(run: Run) -> dict[str, Any]:
    """By planner and batch: channels, imbalance and its bound, state rows, those that moved; wall seconds as times."""
    parameters, windows = run.parameters, calls(run)
    spark = run.spark_on(parameters["threads"])
    unit, most = parameters["unit"], parameters["slots"][-1]

    def measure(planner: str) -> Timed:
        live = Live(
            HASHED.get(planner, planner),
            parameters["wait"],
            slots=parameters["slots"][0],
            most=most,
            # tables of the same planner from the start, so that what moves is what growing requires
            first=Histogram.from_arrays(*np.unique(windows[0], return_counts=True)),
            policy=Periodic(every=None),
            # the mean load at the rate of N channels lies within, that of one channel too few above
            scaling=unskew.LoadRange(0.98 * unit, (1 + 0.5 / most) * unit),
        )
        lines = run_live(spark, windows, live)
        figures = {
            "slots": [line["slots"] for line in lines],
            "imbalance": [line["imbalance"] for line in lines],
            "bound": [line["bound"] for line in lines],
            # what is on its way is in no slot's state
            "rows": [line["state"]["rows"] + line["moved"]["rows"] for line in lines],
            "moved": [line["moved"]["rows"] for line in lines],
        }
        return Timed(figures, {str(line["batch"]): line["wall"] for line in lines})

    rows = run.each([{"planner": planner} for planner in parameters["planner"]], measure)
    return dict(zip(parameters["planner"], rows, strict=True))


def _walls(record: Record, planner: str) -> Floats:
    at = record.parameters["planner"].index(planner)
    by_batch = record.times["points"][at]["parts"]
    return np.array([by_batch[str(batch)] for batch in range(len(by_batch))])


def _settled(record: Record, planner: str) -> Floats:
    """Which batches had as many channels as their rate requires."""
    needed = np.repeat(record.parameters["slots"], record.parameters["batches"])
    settled: Floats = np.array(record.results[planner]["slots"]) == needed
    return settled


def _over_bound(record: Record, planner: str) -> float:
    """The imbalance over its bound, mean of the settled batches of all N but the first."""
    row = record.results[planner]
    ratios = np.array(row["imbalance"]) / np.array(row["bound"])
    later = np.array(row["slots"]) > record.parameters["slots"][0]
    return float(ratios[_settled(record, planner) & later].mean())


def _relative_moves(record: Record, planner: str) -> Floats:
    """The share of the state that moved each time N grew, over the share that must move: 1 − N/N'."""
    row = record.results[planner]
    slots, moves = row["slots"], []
    for at in range(1, len(slots)):
        if slots[at] > slots[at - 1]:
            # state moves in the batch before the one that is routed by the new table
            share = row["moved"][at - 1] / row["rows"][at - 1]
            moves.append(share / (1 - slots[at - 1] / slots[at]))
    return np.array(moves)


def _seconds(record: Record, planner: str) -> float:
    """The mean wall seconds of a settled batch with the most channels."""
    most = np.array(record.results[planner]["slots"]) == record.parameters["slots"][-1]
    return float(_walls(record, planner)[_settled(record, planner) & most].mean())


def _by_planner(record: Record, value: Any, form: str = ".2f") -> str:
    return ", ".join(f"{name} {value(record, name):{form}}" for name in record.parameters["planner"])


def _balances(record: Record) -> Fact:
    best_hash = min(_over_bound(record, name) for name in HASHED)
    holds = all(_over_bound(record, name) < best_hash for name in OURS)
    return Fact(holds, f"imbalance over its bound: {_by_planner(record, _over_bound)}")


def _moves_little(record: Record) -> Fact:
    ours = max(float(_relative_moves(record, name).mean()) for name in OURS)
    hashed = float(_relative_moves(record, "uniform").mean())
    return Fact(ours < min(2.0, hashed), _by_planner(record, lambda r, n: _relative_moves(r, n).mean()))


def _faster(record: Record) -> Fact:
    holds = max(_seconds(record, n) for n in OURS) < min(_seconds(record, n) for n in HASHED)
    return Fact(holds, f"seconds per batch: {_by_planner(record, _seconds)}")


def summary(record: Record) -> str:
    """Balance, migration and batch time at the end."""
    return "; ".join(
        f"{name}: {_over_bound(record, name):.2f} × the bound, m {_relative_moves(record, name).mean():.2f}, "
        f"{_seconds(record, name):.1f} s per batch"
        for name in record.parameters["planner"]
    )


def draw(record: Record, figure: Figure) -> None:
    """Imbalance and wall time over the batches."""
    left, right = figure.subplots(1, 2)
    for name, style in zip(record.parameters["planner"], styles(), strict=False):
        row = record.results[name]
        left.plot(row["imbalance"], label=name, markersize=3, **style)
        right.plot(_walls(record, name), markersize=3, **style)
    left.plot(record.results["scan"]["bound"], color="black", linestyle=":", label="bound")
    left.set(xlabel="batch", ylabel="imbalance of records, max / mean")
    right.set(xlabel="batch", ylabel="wall seconds of the batch", ylim=(0, None))
    left.legend()


LIVE = Experiment(
    name="gedik-live",
    title="Our own: a live stream of call records on Spark, its channels growing from 2 to 16 by rule",
    parameters={
        "planner": ["uniform", "consistent", "scan", "redist", "readj"],
        "slots": [2, 3, 4, 6, 8, 10, 12, 14, 16],
        "batches": 4,
        "unit": 4000,
        "wait": 0.001,
        "keys": 1_000_000,
        "z": 1.0,
        "threads": 16,
    },
    quick={"slots": [2, 8], "batches": 3, "unit": 1000, "keys": 50_000},
    compute=grown,
    claims=(
        shape("scan, redist and readj balance better than both hash functions (section 5.2)", _balances),
        shape(
            "scan, redist and readj move less than uniform hashing, and at most twice the ideal (section 5.2)",
            _moves_little,
        ),
        number(
            "a batch is done sooner than with both hash functions",
            _faster,
            why="two cores serve all channels: what Spark does per channel is part of every batch, whoever plans",
        ),
    ),
    draw=draw,
    size=(9.0, 4.0),
    setting="The paper has no live system. Calls are generated, a channel is a slot of a live stream on Spark that "
    "sleeps for `wait` per call, and the rate grows: `LoadRange` adds channels, and only then is a new table planned. "
    "The count of every caller in the state at the end was checked. Migration m is the share of the callers whose "
    "state moved when N grew, over 1 − N/N'. What Spark does besides waiting needs the two cores of this machine.",
    needs_spark=True,
    basis=Basis.MEASURED,
)
