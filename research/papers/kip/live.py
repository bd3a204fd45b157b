"""Section 5, streaming: throughput and running time with and without re-planning, Figure 6, on Spark's streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from research.papers.drawing import ideal, styles
from research.papers.experiment import Basis, Experiment, Fact, Record, Run, Timed, number, shape
from research.papers.generators import random_keys, shifted_zipf
from research.papers.live_streams import Keys, Live, Periodic, run_live
from unskew.core.histogram import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANNED = ("without DR", "with DR")


def events(run: Run, exponent: float, slots: int) -> list[Keys]:
    """Windows of Zipf-distributed keys, `unit` records per reducer in each."""
    parameters = run.parameters
    random = np.random.default_rng([run.seed, round(10 * exponent), slots])
    keys = random_keys(parameters["keys"], random)
    shares = shifted_zipf(parameters["keys"], exponent, parameters["shift"])
    size = slots * parameters["unit"]
    return [keys[random.choice(len(keys), size, p=shares)] for _ in range(parameters["batches"])]


def throughput(run: Run) -> list[Any]:
    """Imbalance and moved rows by batch, for each number of reducers and exponent; wall seconds of batches as times."""
    parameters = run.parameters

    def measure(slots: int, exponent: float, planned: str) -> Timed:
        live = Live(
            "kip",
            parameters["wait"],
            slots=slots,
            most=slots,
            # hashing, which unskew begins with, stays without a policy
            policy=Periodic(every=1) if planned == "with DR" else None,
        )
        lines = run_live(run.spark_on(parameters["threads"]), events(run, exponent, slots), live)
        figures = {
            "imbalance": [line["imbalance"] for line in lines],
            "bound": [line["bound"] for line in lines],
            "moved": [line["moved"]["rows"] for line in lines],
            "loads": [max(line["loads"]) for line in lines],
        }
        return Timed(figures, {str(line["batch"]): line["wall"] for line in lines})

    return run.each(_points(parameters), measure)


def _points(parameters: Any) -> list[dict[str, Any]]:
    return [
        {"slots": slots, "exponent": exponent, "planned": planned}
        for slots in parameters["slots"]
        for exponent in parameters["exponents"]
        for planned in PLANNED
    ]


def _walls(record: Record, slots: int, exponent: float, planned: str) -> Floats:
    """The wall seconds of the batches but the first, which starts workers."""
    at = _points(record.parameters).index({"slots": slots, "exponent": exponent, "planned": planned})
    parts = record.times["points"][at]["parts"]
    return np.array([parts[str(batch)] for batch in range(1, len(parts))])


def _gain(record: Record, slots: int, exponent: float) -> float:
    """The running time of all batches without re-planning over that with it: the relative throughput."""
    plain, planned = (_walls(record, slots, exponent, name).sum() for name in PLANNED)
    return float(plain / planned)


def _possible(record: Record, slots: int, exponent: float) -> float:
    """The same if only waiting took time and every batch were as even as can be."""
    at = _points(record.parameters).index({"slots": slots, "exponent": exponent, "planned": PLANNED[0]})
    row = record.results[at]
    return float(np.sum(row["imbalance"][1:]) / np.sum(row["bound"][1:]))


def _line(record: Record, slots: int) -> list[float]:
    return [_gain(record, slots, exponent) for exponent in record.parameters["exponents"]]


def _texts(record: Record) -> str:
    return "; ".join(
        f"{slots} reducers: "
        + ", ".join(
            f"exponent {z}: {_gain(record, slots, z):.2f} × (of possible {_possible(record, slots, z):.2f})"
            for z in record.parameters["exponents"]
        )
        for slots in record.parameters["slots"]
    )


def gains(record: Record) -> str:
    """The relative throughput by reducers and exponent."""
    return _texts(record)


def _faster(record: Record) -> Fact:
    """At every point by more than a batch's scatter; undecided within it."""
    decided = []
    for slots in record.parameters["slots"]:
        for z in record.parameters["exponents"]:
            plain, planned = (_walls(record, slots, z, name) for name in PLANNED)
            error = np.hypot(*(walls.std(ddof=1) / np.sqrt(len(walls)) for walls in (plain, planned)))
            gap = plain.mean() - planned.mean()
            decided.append(True if gap > 2 * error else False if gap < -2 * error else None)
    holds = False if False in decided else None if None in decided else True
    return Fact(holds, _texts(record))


def _moderate(record: Record) -> Fact:
    exponents = record.parameters["exponents"]
    best = {slots: int(np.argmax(_line(record, slots))) for slots in record.parameters["slots"]}
    holds = all(0 < at < len(exponents) - 1 for at in best.values())
    text = ", ".join(f"{slots} reducers: most at {exponents[at]}" for slots, at in best.items())
    return Fact(holds, text)


def _range(record: Record) -> Fact:
    best = max(max(_line(record, slots)) for slots in record.parameters["slots"])
    return Fact(1.5 <= best <= 2.5, f"at most {best:.2f} ×")


def share_of_possible(record: Record) -> str:
    """What Spark does besides waiting."""
    slots, z = record.parameters["slots"][0], record.parameters["exponents"][0]
    walls = _walls(record, slots, z, PLANNED[1])
    waits = record.parameters["unit"] * record.parameters["wait"]
    return (
        f"a batch of {slots} reducers takes {walls.mean():.1f} s here, of which a mean reducer waits {waits:.1f} s: "
        "the rest is Spark's own work on two cores, the same with and without re-planning, and moving state"
    )


def draw(record: Record, figure: Figure) -> None:
    """Figure 6: relative throughput, and running time with the most reducers."""
    left, right = figure.subplots(1, 2)
    exponents, most = record.parameters["exponents"], record.parameters["slots"][-1]
    for slots, style in zip(record.parameters["slots"], styles(), strict=False):
        left.plot(exponents, _line(record, slots), label=f"{slots} reducers", **style)
    for name, style in zip(PLANNED, styles(), strict=False):
        right.plot(exponents, [_walls(record, most, z, name).sum() for z in exponents], label=name, **style)
    ideal(left)
    left.set(xlabel="Zipf exponent", ylabel="throughput with DR over that without")
    right.set(xlabel="Zipf exponent", ylabel=f"running time with {most} reducers, s", ylim=(0, None))
    left.legend()
    right.legend()


THROUGHPUT = Experiment(
    name="kip-6",
    title="Throughput and running time of a stream with and without DR; Flink in the paper, here Spark",
    parameters={
        "slots": [14, 28],
        "exponents": [1.0, 1.2, 1.4, 1.6, 1.8, 2.0],
        "shift": 10,
        "batches": 12,
        "unit": 4000,
        "wait": 0.001,
        "keys": 1_000_000,
        "threads": 64,
    },
    quick={"slots": [6], "exponents": [1.0, 1.4, 2.0], "batches": 4, "unit": 1000, "keys": 50_000},
    compute=throughput,
    claims=(
        shape("DR increases the throughput", _faster, why=share_of_possible),
        shape("it increases most for moderate exponents", _moderate, why=share_of_possible),
        number("1.5 to 2 times as fast on Zipf (section 1)", _range, why=share_of_possible),
    ),
    draw=draw,
    size=(9.0, 4.0),
    setting="Measured: wall times of the micro-batches of a live stateful stream on Spark that counts Zipf-distributed "
    "keys (their ranks shifted as in kip-4), one slot for each of the paper's 14 or 28 reducers, each of which sleeps "
    "for a millisecond per record on a thread of its own. With DR KIP re-plans after every batch and the state moves; "
    "without, keys stay hashed. Every count in the state at the end was checked. The first batch, which starts "
    "workers, is left out.",
    needs_spark=True,
    basis=Basis.MEASURED,
    reduced=True,
)
