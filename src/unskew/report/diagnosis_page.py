"""The page about a diagnosis: its key figures, its tables, and the HTML with their charts."""

from __future__ import annotations

import heapq
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from unskew.core.addresses import Address
from unskew.core.diagnosis import Diagnosis, NextKey, Verdict
from unskew.core.histogram import Floats
from unskew.report.page import Card, Cards, Chart, Column, Row, Section, Table, Text, render, write
from unskew.report.text import inert, key_label

OURS, BASELINE = "auto", "hash"
SERIES = {OURS: "unskew (auto)", BASELINE: "hash, what Spark does"}
"""The names of the two tables that are drawn side by side."""

PLANNERS = (
    Column("planner", "planner"),
    Column("imbalance", "fullest slot", "{:.3f}"),
    Column("over_bound", "÷ bound", "{:.3f}"),
    Column("time", "time", "{:.2f}"),
    Column("stragglers", "stragglers"),
    Column("heavy_rows", "heavy rows", "{:,}"),
    Column("note", "note"),
)
"""The columns of `planner_rows`."""

HEAVY = (
    Column("rank", "#"),
    Column("key", "key"),
    Column("share", "share of load", "{:.3%}"),
    Column("slots", "slots' worth", "{:.3f}"),
)
"""The columns of `heavy_rows`."""


PAIRS = (
    Column("first", "first key"),
    Column("then", "then"),
    Column("share", "share of records", "{:.2%}"),
)
"""The columns of `pair_rows`."""


def write_report(diagnosis: Diagnosis, path: Address, *, source: str = "") -> Address:
    """Write the diagnosis as an HTML page that needs no network; `source` says where the data came from.

    `path` may be an address of any file system that Arrow or Spark reaches. Returns where the page is.

    >>> import tempfile
    >>> clicks = spark.range(1000).selectExpr("IF(id < 600, 'ann', CAST(id AS string)) AS user")
    >>> path = unskew.write_report(unskew.diagnose(clicks, "user", slots=4), tempfile.mkdtemp() + "/report.html")
    """
    try:
        page = diagnosis_page(diagnosis, source=source)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a report needs {error.name}: pip install 'unskew[cli]'") from error
    return write(path, page)


def diagnosis_page(diagnosis: Diagnosis, *, source: str = "") -> str:
    """The page as one HTML document without external assets."""
    sections = [Section("In short", [Cards(diagnosis_figures(diagnosis)), Text(_assumptions(diagnosis))])]
    if diagnosis.histogram.total:
        sections += [
            Section("How full the slots get", [_loads(diagnosis)]),
            Section("When the job ends", [_timeline(diagnosis)]),
            Section("The heavy keys", [_heavy(diagnosis)]),
            Section("What each planner would do", [*_planners(diagnosis)]),
        ]
    if diagnosis.then is not None:
        rows = pair_rows(diagnosis.then)
        sections.append(
            Section("Grouped by another key next", [Text(diagnosis.then.advice), Table(PAIRS, rows)])
        )
    sections += [
        Section("What the words mean", [Table(_GLOSSARY, _glossary_rows(diagnosis))]),
        Section("How this was made", [Text(text) for text in _method(diagnosis, source)]),
    ]
    return render(diagnosis_title(diagnosis), diagnosis.advice, sections, footer())


def diagnosis_title(diagnosis: Diagnosis) -> str:
    """What the diagnosis is about."""
    names = ", ".join(map(inert, diagnosis.histogram.key_names)) or "the key"
    return f"How skewed is {names}?"


def diagnosis_figures(diagnosis: Diagnosis) -> list[Card]:
    """The figures to see first."""
    histogram = diagnosis.histogram
    by_hash, ours = diagnosis.verdict(BASELINE), diagnosis.verdict(OURS)
    sampled = "" if histogram.sampled >= 1 else f", estimated from {histogram.sampled:.1%} of the records"
    records = Card(
        "Records", f"{histogram.records:,.0f}", f"{histogram.distinct:,.0f} distinct keys{sampled}"
    )
    if not histogram.total:
        return [records]
    figures = [
        Card(
            "Predicted speedup",
            f"{diagnosis.speedup:.2f} ×",
            f"job time {by_hash.time:.2f} → {ours.time:.2f}, 1 is perfectly even",
            True,
        ),
        Card("Fullest slot with hashing", f"{by_hash.imbalance:.2f} × mean", _stragglers(by_hash)),
        Card("Fullest slot with unskew", f"{ours.imbalance:.2f} × mean", _stragglers(ours)),
        Card("Bound for whole keys", f"{diagnosis.bound:.2f} × mean", "the least that any table can reach"),
        records,
    ]
    if diagnosis.heavy:
        heaviest = diagnosis.heavy[0]
        note = f"{key_label(heaviest.key)}: {_worth(heaviest.slots)}"
        figures.insert(4, Card("Heaviest key", f"{heaviest.share:.2%} of the load", note))
    return figures


def planner_rows(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """One row per planner, shortest job first."""
    order = sorted(
        diagnosis.verdicts, key=lambda v: (round(v.time, 4), round(v.imbalance, 4), v.planner != OURS)
    )
    return [
        {
            "planner": verdict.planner,
            "imbalance": verdict.imbalance,
            "over_bound": verdict.imbalance / diagnosis.bound,
            "time": verdict.time,
            "stragglers": verdict.stragglers,
            "heavy_rows": verdict.heavy_rows,
            "note": _PLANNER_NOTES.get(
                verdict.planner, "splits keys (merge=)" if verdict.splits_keys else ""
            ),
        }
        for verdict in order
    ]


def heavy_rows(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """One row per heavy key, heaviest first; keys as inert text."""
    return [
        {"rank": rank, "key": key_label(heavy.key), "share": heavy.share, "slots": heavy.slots}
        for rank, heavy in enumerate(diagnosis.heavy, 1)
    ]


def pair_rows(then: NextKey) -> list[dict[str, Any]]:
    """One row per pair of keys, most frequent first; keys as inert text."""
    return [{"first": key_label(a), "then": key_label(b), "share": share} for a, b, share in then.pairs]


def schedule(loads: Floats, cores: int) -> list[tuple[int, float, float]]:
    """The core, start and end of every task, when tasks start in order on the next free core.

    >>> schedule(np.array([1.0, 1.0, 1.0, 3.0]), 2)
    [(0, 0.0, 1.0), (1, 0.0, 1.0), (0, 1.0, 2.0), (1, 1.0, 4.0)]
    """
    free = [(0.0, core) for core in range(cores)]
    tasks = []
    for load in loads.tolist():
        start, core = free[0]
        heapq.heapreplace(free, (start + load, core))
        tasks.append((core, start, start + load))
    return tasks


_PLANNER_NOTES = {BASELINE: "what Spark does", OURS: "unskew's default"}


def _assumptions(diagnosis: Diagnosis) -> str:
    slots, cores = diagnosis.slots, diagnosis.cores
    where = "one core per slot" if cores == slots else f"run on {cores} cores"
    return (
        f"For {slots} slots (partitions), {where}. “Fullest slot” is the load of the slot with the most work, over the "
        "mean: a stage of a Spark job waits for it. Predicted times assume that the time of a task is proportional to "
        "its load."
    )


def _loads(diagnosis: Diagnosis) -> Chart:
    from unskew.report import diagnosis_charts

    rows: list[Row] = []
    for name, label in SERIES.items():
        loads = diagnosis.verdict(name).loads
        relative = loads / loads.mean()
        order = np.argsort(-relative, kind="stable")
        rows += [
            {"rank": rank, "slot": int(slot), "series": label, "load": float(relative[slot])}
            for rank, slot in enumerate(order, 1)
        ]
    columns = [
        Column("series", "table"),
        Column("rank", "rank"),
        Column("slot", "slot"),
        Column("load", "load, × mean", "{:.3f}"),
    ]
    caption = (
        "Each bar is one slot. The taller the first bars, the longer the job waits for them; the lower the last "
        "ones, the more capacity stands idle. Even bars are the goal."
    )
    spec = diagnosis_charts.loads(rows, series=list(SERIES.values()), bound=diagnosis.bound)
    return Chart("The load of every slot", spec, Table(columns, rows), caption)


def _timeline(diagnosis: Diagnosis) -> Chart:
    from unskew.report import diagnosis_charts

    tasks: list[Row] = []
    ends: list[Row] = []
    order = [BASELINE, OURS]
    for name in order:
        verdict, label = diagnosis.verdict(name), SERIES[name]
        even = verdict.loads.sum() / diagnosis.cores
        mean = verdict.loads.mean()
        spans = schedule(verdict.loads / even, diagnosis.cores)
        tasks += [
            {
                "series": label,
                "slot": slot,
                "core": core,
                "start": start,
                "end": end,
                "load": float(verdict.loads[slot] / mean),
                "straggler": bool(verdict.loads[slot] > 2 * mean),
            }
            for slot, (core, start, end) in enumerate(spans)
        ]
        ends.append({"series": label, "end": verdict.time, "label": f"{label}: ends at {verdict.time:.2f}"})
    columns = [
        Column("series", "table"),
        Column("slot", "slot"),
        Column("core", "core"),
        Column("start", "starts at", "{:.3f}"),
        Column("end", "ends at", "{:.3f}"),
        Column("load", "load, × mean", "{:.3f}"),
    ]
    caption = (
        f"Each lane is one of {diagnosis.cores} cores, each block in it the work of one slot. Strong colour marks "
        "stragglers, slots above twice the mean. Empty space to the left of the coloured end line is paid for and "
        "idle. The dashed line is where perfectly even work would end. Predicted, not measured: tasks start in "
        "order on the next free core, and their time is proportional to their load."
    )
    spec = diagnosis_charts.timeline(
        tasks,
        ends,
        series=[SERIES[OURS], SERIES[BASELINE]],
        blocks=[SERIES[name] for name in order],
        cores=diagnosis.cores,
    )
    return Chart("Predicted course of the job", spec, Table(columns, tasks), caption)


def _heavy(diagnosis: Diagnosis) -> Chart:
    from unskew.report import diagnosis_charts

    rows = heavy_rows(diagnosis)
    # cut keys may look alike: the rank keeps their names apart
    named = [{**row, "name": f"{row['rank']}. {row['key']}"} for row in rows]
    total_share = sum(heavy.share for heavy in diagnosis.heavy)
    caption = (
        f"The {len(rows)} heaviest keys carry {total_share:.1%} of the load. The dashed line is what one slot gets on "
        f"average with {diagnosis.slots} slots: a key beyond it fills more than a whole slot, wherever it is placed."
    )
    spec = diagnosis_charts.heavy_keys(named, whole_slot=1 / diagnosis.slots)
    return Chart("Share of the load by key", spec, Table(HEAVY, rows), caption)


def _planners(diagnosis: Diagnosis) -> list[Text | Chart | Table]:
    from unskew.report import charts

    rows = planner_rows(diagnosis)
    bars = [{"name": row["planner"], "value": row["time"]} for row in rows]
    spec = charts.ranked(bars, highlight=OURS, x_title="predicted time, 1 = perfectly even work", form=".2f")
    columns = [Column("name", "planner"), Column("value", "predicted time", "{:.3f}")]
    ours = frozenset(i for i, row in enumerate(rows) if row["planner"] == OURS)
    return [
        Chart("Predicted time under each planner", spec, Table(columns, bars)),
        Table(PLANNERS, rows, ours),
        Text(_HOW_TO_READ_PLANNERS),
    ]


_HOW_TO_READ_PLANNERS = (
    "“Fullest slot” is max/mean load, “÷ bound” the same over the least that is possible while every key stays "
    "whole, “time” the predicted length of the job, where 1 is perfectly even work. Planners that split keys "
    "can go below the bound, but only for operators that can merge partial results."
)

_GLOSSARY = (Column("word", "word"), Column("meaning", "meaning"))


def _glossary_rows(diagnosis: Diagnosis) -> Sequence[Row]:
    meanings = {
        "key": "The value that records are grouped or joined by. All records of a key are processed together.",
        "slot": "Where keys are processed: one partition, and so one Spark task. "
        f"There are {diagnosis.slots} here.",
        "load": "How much work a key or a slot has: its number of records, or the sum of the weight column.",
        "skew": "A few keys have much more load than the others.",
        "fullest slot": "The imbalance: load of the fullest slot over the mean load. 1 is perfectly even; 2 means "
        "that the job waits twice as long as necessary.",
        "bound": "The least imbalance possible while every key is in one slot: the heaviest key alone, in mean slots.",
        "hashing": "What Spark does: the hash of a key decides its slot, however heavy the key is.",
        "heavy key": "A key with its own row in the routing table, so that it can be placed on purpose.",
        "planner": "A method that turns measured load into a routing table. auto chooses one.",
        "straggler": "A slot with more than twice the mean load.",
        "splitting": "Processing one key in several slots and merging the results; not every operation allows it.",
    }
    return [{"word": word, "meaning": meaning} for word, meaning in meanings.items()]


def _method(diagnosis: Diagnosis, source: str) -> list[str]:
    histogram = diagnosis.histogram
    measured = (
        "all records"
        if histogram.sampled >= 1
        else f"a sample equivalent to {histogram.sampled:.1%} of the records"
    )
    weighted = not np.isclose(histogram.total, histogram.records)
    load = f"a weight column ({histogram.total:,.6g} in total)" if weighted else "the number of records"
    texts = [f"Data: {inert(source)}."] if source else []
    return [
        *texts,
        f"Measured: {measured}, in {histogram.buckets:,} hash buckets, and the {len(histogram.keys):,} heaviest keys "
        f"one by one. Load is {load}. Every planner then made a table from the same figures, with its default options.",
        "Times are predictions from the load alone. Start-up, shuffling and records that cost more than others are "
        "not in them; give a weight column where records differ in cost.",
    ]


def _worth(slots: float) -> str:
    return f"{slots:.1f} slots' worth" if slots >= 0.1 else "less than a tenth of a slot"


def _stragglers(verdict: Verdict) -> str:
    count = {0: "no stragglers", 1: "1 straggler"}.get(verdict.stragglers, f"{verdict.stragglers} stragglers")
    return f"{count} (above 2 × mean)"


def footer() -> str:
    """The versions that made a page."""
    from unskew import __version__

    return f"unskew {__version__}, Python {platform.python_version()}, numpy {np.__version__}"
