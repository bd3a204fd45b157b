"""All planners on one drifting stream: the replay, and the page and picture of its results."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as TerminalTable

from research.simulation import Outcome, Step, outcome, replay
from research.workloads import drifting_windows
from unskew import __version__
from unskew.core.planners import PLANNERS
from unskew.report.page import Card, Cards, Chart, Column, Row, Section, Table, Text, render

OURS = "keel"
BASELINE = "hash"

NO_RIVALS = frozenset({OURS, "auto"})
"""`auto` chooses keel here, so it does not count as a rival."""

LINES = (OURS, BASELINE, "kip", "readj", "dkg")
"""The planners drawn over time: ours, Spark's, and the best-known planner of three of the papers."""

TARGETS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Settings of keel's `target`, from the best balance to almost no movement."""

RUNS = len(PLANNERS) + len(TARGETS)

BOUND = "lower bound"

_HIGHEST = 1.8
"""The highest imbalance ÷ bound in the trade-off chart: worse planners would squeeze the others."""

_EQUAL = 1e-3
"""Imbalances that differ by at most this count as equal."""

RANKING = (
    Column("planner", "planner"),
    Column("imbalance", "max/mean", "{:.3f}"),
    Column("over_bound", "÷ bound", "{:.3f}"),
    Column("stale", "on arrival", "{:.3f}"),
    Column("moved", "state moved", "{:.2%}"),
    Column("milliseconds", "planning", "{:.1f} ms"),
    Column("keys", "keys"),
)
"""The columns of `ranking`."""


@dataclass(frozen=True)
class Setting:
    """The size of the simulation."""

    windows: int = 20
    keys: int = 100_000
    draws: int = 1_000_000
    slots: int = 20
    exponent: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Results:
    """The steps of every planner, and the outcome of keel under every target."""

    setting: Setting
    steps: dict[str, list[Step]]
    targets: dict[float, Outcome]
    heaviest: float

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """The figures of each planner, most even first."""
        by_name = {name: outcome(steps) for name, steps in self.steps.items()}
        return dict(sorted(by_name.items(), key=lambda item: (round(item[1].imbalance, 4), item[1].moved)))


def simulate(setting: Setting, report: Callable[[int, str], None] | None = None) -> Results:
    """Replay the same windows through every planner, and through keel under each target.

    `report` is called with the number of the `RUNS` replays that are done, and the name of the next one.
    """
    stream = drifting_windows(
        steps=setting.windows,
        keys=setting.keys,
        draws=setting.draws,
        exponent=setting.exponent,
        seed=setting.seed,
    )
    windows = list(stream)
    steps: dict[str, list[Step]] = {}
    for name in PLANNERS:
        if report is not None:
            report(len(steps), name)
        steps[name] = replay(name, windows, setting.slots, seed=setting.seed)
    targets: dict[float, Outcome] = {}
    for target in TARGETS:
        if report is not None:
            report(len(steps) + len(targets), f"{OURS}, target {target:.1%}")
        targets[target] = outcome(replay(OURS, windows, setting.slots, seed=setting.seed, target=target))
    return Results(setting, steps, targets, statistics.mean(w.heaviest_share for w in windows[1:]))


def ranking(results: Results) -> list[dict[str, Any]]:
    """One row per planner, most even first, for the terminal and the page."""
    return [
        {
            "planner": name,
            "imbalance": _mean_imbalance(results.steps[name]),
            "over_bound": result.imbalance,
            "stale": result.stale,
            "moved": result.moved,
            "milliseconds": result.seconds * 1000,
            "keys": "split" if PLANNERS[name].splits else "whole",
        }
        for name, result in results.outcomes.items()
    ]


def print_ranking(results: Results, console: Console) -> None:
    """Print the ranking in the terminal, with keel highlighted."""
    setting = results.setting
    table = TerminalTable(
        title=f"{setting.windows} windows of {setting.draws:,} records, {setting.slots} slots",
        caption="Most even first. max/mean: the fullest slot. Bound: the least possible with whole keys.\n"
        "On arrival: ÷ bound, one window later. State moved: share of all state, per window.",
    )
    for column in RANKING:
        table.add_column(column.title, justify="left" if column.form == "{}" else "right", no_wrap=True)
    for row in ranking(results):
        style = "bold black on yellow" if row["planner"] == OURS else None
        table.add_row(*(column.show(row) for column in RANKING), style=style)
    console.print(table)


def simulate_with_progress(setting: Setting, console: Console) -> Results:
    """As `simulate`, with a progress bar on the console."""
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("drawing the stream", total=RUNS)
        return simulate(setting, lambda done, name: progress.update(task, completed=done, description=name))


def make_page(results: Results) -> str:
    """The HTML page."""
    rows = ranking(results)
    ours = frozenset(i for i, row in enumerate(rows) if row["planner"] == OURS)
    sections = [
        Section("Planners on a drifting stream", [Cards(_cards(results)), Text(_verdict(results))]),
        Section("Balance over time", [_balance(results), _arrival(results)]),
        Section("One window, slot by slot", [_slots(results)]),
        Section("What balance costs", [_tradeoff(results), _moved(rows)]),
        Section("All planners", [Text(_READING), Table(RANKING, rows, ours)]),
        Section("Method", [Text(text) for text in _method(results.setting)]),
    ]
    footer = f"unskew {__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    return render("Skewed keys, evenly spread", _LEAD.format(slots=results.setting.slots), sections, footer)


def make_picture(results: Results) -> str:
    """Imbalance over time and the trade-off side by side, as SVG."""
    import vl_convert

    from unskew.report import charts

    size: dict[str, Any] = {"width": 400, "height": 280}
    lines = (OURS, BASELINE)
    rows = _over_time(results, lines, "imbalance")
    left = charts.over_time(rows, series=lines, bound=BOUND, floor=1.0, **size)
    right = charts.tradeoff(*_points(results), highlight=OURS, highest=_HIGHEST, **size)
    titles = ("How full is the fullest slot?", "What does balance cost in moved state?")
    spec = charts.side_by_side(dict(zip(titles, (left, right), strict=True)))
    return str(vl_convert.vegalite_to_svg(spec))


_LEAD = (
    "A stream of records is spread over {slots} slots by key, and every key's state lives where its "
    "records go. A window is done when its fullest slot is done. Hashing ignores how hot a key is; "
    "planners place hot keys on purpose, and pay for it by moving state whenever other keys become hot."
)

_READING = (
    "Averages over all windows but the first. “max/mean” is the imbalance: the load of the fullest slot "
    "over the mean load; 1 is perfectly even. “÷ bound” is the same over its lower bound, which no table "
    "that keeps every key on one slot can beat: the larger of 1 and the hottest key's share times the "
    "number of slots. “On arrival” is imbalance ÷ bound under the table made from the window before, which "
    "is what a running job experiences. “State moved” is the share of all state that changes slots per window, "
    "“planning” the median planning time. Planners that split keys need an operator that can merge "
    "partial results."
)


def _method(setting: Setting) -> list[str]:
    return [
        f"Simulated, without Spark: {setting.windows} windows of {setting.draws:,} records over "
        f"{setting.keys:,} keys whose frequencies follow Zipf's law with exponent {setting.exponent:g}. "
        "Between windows the 500 hottest keys trade their frequencies in groups of five. The state of a "
        "key is its number of records in the last five windows. All planners see the same windows and run with "
        f"their defaults and seed {setting.seed}; each starts from its own previous table. The first plan of each "
        "moves nothing.",
        "Balance is measured on the window that the table was planned from, so it shows what a planner can do "
        "with full information; “on arrival” shows what remains of that one window later. Planning times are "
        "measured on this machine; all other figures are the same in every run.",
    ]


def _cards(results: Results) -> list[Card]:
    hashed, ours = (_mean_imbalance(results.steps[name]) for name in (BASELINE, OURS))
    bound = statistics.mean(step.bound for step in results.steps[OURS][1:])
    outcomes = results.outcomes
    keel = outcomes[OURS]
    as_even = [name for name in _rivals(results) if outcomes[name].imbalance <= keel.imbalance + _EQUAL]
    cheapest = min(as_even, key=lambda name: outcomes[name].moved, default=None)
    note = "no other planner here is as even"
    if cheapest is not None:
        note = f"{cheapest}, the cheapest other planner that is as even, moves {outcomes[cheapest].moved:.1%}"
    hottest = f"the hottest key alone is {results.heaviest:.1%} of all records"
    return [
        Card("Fullest slot with plain hashing", f"{hashed:.2f} × mean", "what Spark does by default"),
        Card(
            "Fullest slot with keel", f"{ours:.2f} × mean", f"{keel.imbalance - 1:.1%} above the bound", True
        ),
        Card("Lower bound for whole keys", f"{bound:.2f} × mean", hottest),
        Card(
            "Less work for the fullest slot", f"{1 - ours / hashed:.0%}", "keel against plain hashing", True
        ),
        Card("State that keel moves per window", f"{keel.moved:.1%}", note, True),
        Card("Planning time of keel", f"{keel.seconds * 1000:.0f} ms", "median of all windows"),
    ]


def _verdict(results: Results) -> str:
    """What the numbers show about keel and its rivals."""
    outcomes, rivals = results.outcomes, _rivals(results)
    keel = outcomes[OURS]
    better = [
        name
        for name in rivals
        if outcomes[name].imbalance < keel.imbalance - _EQUAL and outcomes[name].moved < keel.moved
    ]
    settings = [keel, *results.targets.values()]
    matched = [
        name
        for name in rivals
        if any(
            s.imbalance <= outcomes[name].imbalance + _EQUAL and s.moved <= outcomes[name].moved
            for s in settings
        )
    ]
    first = f"None of the {len(rivals)} other planners beats keel on imbalance and on state moved at once."
    if better:
        first = f"Better than keel on imbalance and on state moved at once: {', '.join(better)}."
    return (
        f"{first} For {len(matched)} of the {len(rivals)} others some target of keel is at least "
        f"as good on both (imbalances within {_EQUAL:.1%} of the bound count as equal)."
    )


def _rivals(results: Results) -> list[str]:
    return [name for name in results.outcomes if name not in NO_RIVALS]


def _balance(results: Results) -> Chart:
    caption = (
        "Load of the fullest slot over the mean, each window under the table planned from it. Lower is "
        "better; the dotted line is the least possible without splitting a key."
    )
    return _time_chart("The fullest slot, after planning", caption, results, "imbalance")


def _arrival(results: Results) -> Chart:
    caption = (
        "The same windows under the table of the window before, which has no information about keys that have "
        "become hot since then."
    )
    return _time_chart("The fullest slot, as the window arrives", caption, results, "stale")


def _time_chart(title: str, caption: str, results: Results, measure: str) -> Chart:
    from unskew.report import charts

    rows = _over_time(results, LINES, measure)
    wide: dict[int, dict[str, Any]] = {}
    for row in rows:
        wide.setdefault(row["window"], {"window": row["window"]})[row["series"]] = row["value"]
    columns = [Column("window", "window"), *(Column(name, name, "{:.3f} ×") for name in (*LINES, BOUND))]
    spec = charts.over_time(rows, series=LINES, bound=BOUND, floor=1.0)
    return Chart(title, spec, Table(columns, list(wide.values())), caption)


def _over_time(results: Results, names: Sequence[str], measure: str) -> list[Row]:
    rows: list[Row] = [
        {"window": i, "series": name, "value": getattr(step, measure)}
        for name in names
        for i, step in enumerate(results.steps[name][1:], start=2)
    ]
    bounds = enumerate(results.steps[OURS][1:], start=2)
    return rows + [{"window": i, "series": BOUND, "value": step.bound} for i, step in bounds]


def _slots(results: Results) -> Chart:
    from unskew.report import charts

    names = (OURS, BASELINE)
    rows: list[Row] = []
    for name in names:
        loads = results.steps[name][-1].loads
        relative = (loads / loads.mean()).tolist()
        fullest_first = np.argsort(-loads, kind="stable").tolist()
        rows += [
            {"rank": rank, "slot": slot, "series": name, "load": relative[slot]}
            for rank, slot in enumerate(fullest_first, start=1)
        ]
    columns = [
        Column("series", "planner"),
        Column("rank", "rank"),
        Column("slot", "slot"),
        Column("load", "load", "{:.3f} × mean"),
    ]
    caption = (
        "The last window, after planning. The fullest slot decides how long a window takes; keel leaves "
        "slots below the line alone, because moving their state would not shorten it."
    )
    spec = charts.slot_loads(rows, series=names, bound=results.steps[OURS][-1].bound)
    return Chart("Load of each slot", spec, Table(columns, rows), caption)


def _tradeoff(results: Results) -> Chart:
    from unskew.report import charts

    points, front = _points(results)
    hidden = [f"{p['name']} ({p['imbalance']:.1f} × bound)" for p in points if p["imbalance"] > _HIGHEST]
    caption = (
        "Down and to the left is better. A dot is a planner, averaged over the windows. Open dots are keel "
        f"with its option “target”, the tolerated excess over the bound, varied from {TARGETS[0]:.0%} to "
        f"{TARGETS[-1]:.0%}; the line joins those that no other setting beats. State moved is on a "
        "cube-root scale."
    )
    if hidden:
        caption += f" Off the chart: {', '.join(hidden)}."
    columns = [
        Column("name", "planner"),
        Column("setting", "setting"),
        Column("imbalance", "imbalance ÷ bound", "{:.4f}"),
        Column("moved", "state moved per window", "{:.3%}"),
    ]
    rows = [*points, *({"name": OURS, **row} for row in front)]
    spec = charts.tradeoff(points, front, highlight=OURS, highest=_HIGHEST)
    return Chart("Balance against state moved", spec, Table(columns, rows), caption)


def _points(results: Results) -> tuple[list[Row], list[Row]]:
    """Every planner, and keel's settings, as rows of the trade-off chart."""
    kinds = {name: "splits keys" for name, planner in PLANNERS.items() if planner.splits}
    kinds[OURS] = "keel, and its settings"
    points: list[Row] = [
        {
            "name": name,
            "kind": kinds.get(name, "keeps keys whole"),
            "imbalance": o.imbalance,
            "moved": o.moved,
        }
        for name, o in results.outcomes.items()
    ]
    front: list[Row] = [
        {"setting": f"target {target:.1%}", "imbalance": o.imbalance, "moved": o.moved}
        for target, o in results.targets.items()
    ]
    return points, front


def _moved(rows: Sequence[Row]) -> Chart:
    from unskew.report import charts

    bars = [{"name": row["planner"], "value": row["moved"]} for row in sorted(rows, key=lambda r: r["moved"])]
    columns = [Column("name", "planner"), Column("value", "state moved per window", "{:.2%}")]
    caption = (
        "The share of all state that changes slots between two windows. Tables that never change move "
        "nothing, but they never adapt to a change of the keys either."
    )
    spec = charts.ranked(bars, highlight=OURS, x_title="state moved per window")
    return Chart("State moved by each planner", spec, Table(columns, bars), caption)


def _mean_imbalance(steps: Sequence[Step]) -> float:
    return statistics.mean(step.imbalance for step in steps[1:])
