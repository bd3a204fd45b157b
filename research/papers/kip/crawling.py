"""Section 6, web crawl: fetch lists by host and named entities by host, Figures 7 and 8.

Fetching a page is waiting for it, and so is here recognising the entities of a text: a function that sleeps for as long
as the work takes. So the jobs run on the paper's number of threads and their wall time is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import unskew
from research.papers.drawing import ideal, styles
from research.papers.experiment import Basis, Experiment, Fact, Record, Run, Timed, number, printed, shape
from research.papers.generators import crawl, texts
from research.papers.waiting_jobs import Grouping, Outcome, Waits, compare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDS = 7
CHARACTERS = 1000
"""Characters of text per unit of time of recognising entities."""


def groupings(slots: int) -> dict[str, Grouping]:
    """Plain Spark, and KIP with all that it does before the job: measuring and planning."""
    return {
        "Hash": lambda df: df.groupBy("key"),
        "KIP": lambda df: unskew.groupBy(df, "key", slots=slots, planner="kip", buckets=100 * slots),
    }


def _pages(run: Run, turn: int) -> Waits:
    rounds = list(crawl(ROUNDS, run.parameters["pages"], seed=run.seed))
    pages = rounds[turn - 1]
    return Waits(pages.hosts, pages.seconds * run.parameters["page"])


def _texts(run: Run) -> Waits:
    written = texts(run.parameters["texts"], seed=run.seed)
    lengths = np.array([len(body) for body in written.bodies]) / CHARACTERS
    return Waits(written.hosts, lengths * run.parameters["text"])


def last_round(run: Run) -> list[Any]:
    """The last crawl round by the number of threads."""
    parameters, waits = run.parameters, _pages(run, ROUNDS)
    slots = parameters["slots"]

    def measure(threads: int) -> Timed:
        return compare(
            run.spark_on(threads), waits, groupings(slots), slots=slots, runs=parameters["repetitions"]
        )

    return run.each([{"threads": threads} for threads in parameters["threads"]], measure)


def rounds_and_texts(run: Run) -> list[Any]:
    """The crawl rounds on 64 threads, then the texts on 36, by the number of partitions."""
    parameters = run.parameters

    def measure(job: str, number: int) -> Timed:
        crawling = job == "crawl"
        threads, slots = (
            (parameters["threads"], parameters["slots"]) if crawling else (parameters["text threads"], number)
        )
        waits = _pages(run, number) if crawling else _texts(run)
        return compare(
            run.spark_on(threads), waits, groupings(slots), slots=slots, runs=parameters["repetitions"]
        )

    points = [{"job": "crawl", "number": turn} for turn in parameters["rounds"]]
    points += [{"job": "texts", "number": slots} for slots in parameters["text slots"]]
    return run.each(points, measure)


def _rounds(record: Record) -> dict[int, Outcome]:
    """Figure 7's points by threads."""
    threads = record.parameters["threads"]
    return {
        n: Outcome.at(record, at, row, n)
        for at, (n, row) in enumerate(zip(threads, record.results, strict=True))
    }


def _crawls(record: Record) -> dict[int, Outcome]:
    """Figure 8's crawls by round."""
    threads = record.parameters["threads"]
    return {
        turn: Outcome.at(record, at, record.results[at], threads)
        for at, turn in enumerate(record.parameters["rounds"])
    }


def _recognised(record: Record) -> dict[int, Outcome]:
    """Figure 8's texts by the number of partitions."""
    threads, before = record.parameters["text threads"], len(record.parameters["rounds"])
    return {
        slots: Outcome.at(record, before + at, record.results[before + at], threads)
        for at, slots in enumerate(record.parameters["text slots"])
    }


def _listed(outcomes: dict[int, Outcome], what: str) -> str:
    return "; ".join(f"{n} {what}: {outcome.text('Hash', 'KIP')}" for n, outcome in outcomes.items())


def _all_faster(outcomes: list[Outcome]) -> bool | None:
    answers = [outcome.faster("Hash", "KIP") for outcome in outcomes]
    return False if False in answers else None if None in answers else True


def _balance(record: Record) -> Fact:
    first = next(iter(_rounds(record).values()))
    hashed, ours = first.imbalance("Hash"), first.imbalance("KIP")
    return Fact(ours < hashed, f"max / mean of the records: {hashed:.2f} with Hash, {ours:.2f} with KIP")


def _less_time(record: Record) -> Fact:
    outcomes = _rounds(record)
    return Fact(_all_faster(list(outcomes.values())), _listed(outcomes, "threads"))


def speedup(record: Record) -> float:
    """The wall time with Hash over that with KIP, on the paper's number of threads."""
    return next(iter(_rounds(record).values())).speedup("Hash", "KIP")


def round_speedups(record: Record) -> str:
    """The same with its spread and the share of the possible gain, by threads."""
    return _listed(_rounds(record), "threads")


def _every_round(record: Record) -> Fact:
    outcomes = _crawls(record)
    later = [outcome for turn, outcome in outcomes.items() if turn > 1]
    return Fact(_all_faster(later), _listed(outcomes, "rounds"))


def _texts_faster(record: Record) -> Fact:
    outcomes = _recognised(record)
    return Fact(_all_faster(list(outcomes.values())), text_speedups(record))


def _six_times(record: Record) -> Fact:
    ratios = [outcome.speedup("Hash", "KIP") for outcome in _recognised(record).values()]
    return Fact(all(abs(ratio - 6) <= 2 for ratio in ratios), text_speedups(record))


def text_speedups(record: Record) -> str:
    """The same for texts, by the number of partitions."""
    return _listed(_recognised(record), "partitions")


def draw_last_round(record: Record, figure: Figure) -> None:
    """Figure 7."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    outcomes = _rounds(record)
    for offset, (name, style) in zip((-0.2, 0.2), zip(("Hash", "KIP"), styles(), strict=False), strict=True):
        records = sorted(record.results[0][f"{name} rows"], reverse=True)
        left.plot(records, label=name, **{**style, "marker": ""})
        heights = [outcome.median(name) for outcome in outcomes.values()]
        right.bar(np.arange(len(heights)) + offset, heights, width=0.4, color=style["color"])
    left.set(xlabel="partition, fullest first", ylabel="records")
    right.set(xticks=range(len(outcomes)), xticklabels=[f"{n} threads" for n in outcomes])
    right.set(ylabel="wall seconds of the job, median")
    left.legend()


def draw_rounds_and_texts(record: Record, figure: Figure) -> None:
    """Figure 8."""
    left, right = figure.subplots(1, 2)
    rounds, recognised = _crawls(record), _recognised(record)
    left.bar(list(rounds), [outcome.speedup("Hash", "KIP") for outcome in rounds.values()], color="#0072B2")
    left.set(xlabel="crawl round", ylabel="speedup, Hash / KIP")
    ideal(left)
    for name, style in zip(("Hash", "KIP"), styles(), strict=False):
        right.plot(list(recognised), [o.median(name) for o in recognised.values()], label=name, **style)
    right.set(xlabel="partitions", ylabel="wall seconds of the job, median", ylim=(0, None))
    right.legend()


SETTING = (
    "Measured: wall times of whole jobs on Spark, with KIP those of measuring and planning too. The crawl is "
    "generated: 64 sites, as in the paper, of lognormal size and loading time, and the small ones they link to; the "
    "paper does not give sizes. A function sleeps for as long as its pages take to load, or its texts to be "
    "recognised, so that {what} run at once on two cores. Every job's answer was checked. Possible is the speedup of "
    "a perfect placement if only waiting took time."
)


def largest_site(record: Record) -> str:
    """How much of the gain is possible at all with the generated sites."""
    outcomes = _rounds(record) if record.name == "kip-7" else _recognised(record)
    first = next(iter(outcomes.values()))
    return (
        f"KIP's fullest partition has {first.imbalance('KIP'):.1f} × the mean, Hash's {first.imbalance('Hash'):.1f} ×. "
        f"The heaviest of the generated hosts takes {first.figures['heaviest']:.1f} s of {first.figures['total']:.0f} "
        f"s and bounds every placement: {first.possible('Hash'):.2f} × is possible. The factor depends on how unequal "
        "hosts are, which the paper does not say"
    )


LAST_ROUND = Experiment(
    name="kip-7",
    title="Record balance and processing time of Spark in the 7th crawl round",
    parameters={"pages": 100_000, "page": 0.003, "slots": 64, "threads": [64, 16], "repetitions": 5},
    quick={"pages": 10_000, "page": 0.005, "repetitions": 2},
    compute=last_round,
    claims=(
        shape("KIP improves the balance of fetch lists", _balance),
        shape("KIP reduces the processing time", _less_time, why=largest_site),
        printed("from 69.1 to 24.9 minutes, 2.8 ×", 69.1 / 24.9, speedup, within=1.0, why=largest_site),
    ),
    draw=draw_last_round,
    size=(9.0, 4.0),
    setting=SETTING.format(what="64 (the paper's 8 executors of 8 cores) or 16 tasks"),
    needs_spark=True,
    basis=Basis.MEASURED,
    reduced=True,
)

ROUNDS_AND_TEXTS = Experiment(
    name="kip-8",
    title="Speedup over crawl rounds, and processing time of named entity recognition",
    parameters={
        "rounds": list(range(1, ROUNDS + 1)),
        "pages": 100_000,
        "page": 0.003,
        "slots": 64,
        "threads": 64,
        "texts": 40_000,
        "text": 0.01,
        "text slots": [36, 72, 108],
        "text threads": 36,
        "repetitions": 5,
    },
    quick={
        "rounds": [2, 7],
        "pages": 10_000,
        "page": 0.006,
        "texts": 4_000,
        "text": 0.03,
        "text slots": [36],
        "repetitions": 1,
    },
    compute=rounds_and_texts,
    claims=(
        shape("KIP is faster from the second crawl round on", _every_round, why=largest_site),
        shape(
            "entities are recognised faster for all numbers of partitions", _texts_faster, why=largest_site
        ),
        number("entities are recognised faster by a factor of 6", _six_times, why=largest_site),
    ),
    draw=draw_rounds_and_texts,
    size=(9.0, 4.0),
    setting=SETTING.format(what="64 tasks (crawls) or the paper's 36 (texts)"),
    needs_spark=True,
    basis=Basis.MEASURED,
    reduced=True,
)
