"""The diagnosis of an event log for people: key figures, rows, and an HTML page with pictures of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unskew.eventlog.findings import Finding, LogDiagnosis
from unskew.eventlog.stages import Stage
from unskew.report.diagnosis_page import footer
from unskew.report.page import Card, Cards, Chart, Column, Row, Section, Table, Text, write
from unskew.report.page import render as render_page
from unskew.report.text import inert, key_label

STAGES = (
    Column("stage", "stage"),
    Column("cause", "cause"),
    Column("fixable", "unskew could help"),
    Column("saved", "could save", "{:.1f} s"),
    Column("length", "of", "{:.1f} s"),
    Column("tasks", "tasks", "{:,}"),
    Column("longest", "longest task", "{:.1f} s"),
    Column("mean", "mean task", "{:.1f} s"),
    Column("median", "median task", "{:.1f} s"),
    Column("records", "its records", "{:.1f} ×"),
    Column("bytes", "its bytes", "{:.1f} ×"),
)
"""The columns of `stage_rows`."""

ADVICE = (
    Column("stage", "stage"),
    Column("where", "where"),
    Column("advice", "what to do"),
)
"""The columns of `advice_rows`."""

_DRAWN = 8  # stages that are drawn: more would not fit a screen
_TICKS = 200  # tasks of a stage that are drawn


def write_log_report(diagnosis: LogDiagnosis, path: str | Path, *, source: str = "") -> Path:
    """Write the diagnosis as an HTML page that needs no network; `source` says where the log came from."""
    try:
        page = render(diagnosis, source=source)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a report needs {error.name}: pip install 'unskew[cli]'") from error
    return write(path, page)


def render(diagnosis: LogDiagnosis, *, source: str = "") -> str:
    """The page as one HTML document without external assets."""
    sections = [Section("In short", [Cards(key_figures(diagnosis))])]
    if diagnosis.findings:
        fixable = frozenset(i for i, found in enumerate(diagnosis.findings) if found.advice.fixable)
        sections += [
            Section(
                "Where time was lost", [_saved(diagnosis), Table(STAGES, stage_rows(diagnosis), fixable)]
            ),
            Section("What to do", [Table(ADVICE, advice_rows(diagnosis), fixable)]),
            Section("The tasks", [_strips(diagnosis)]),
        ]
    sections.append(Section("How this was made", [Text(text) for text in _method(source)]))
    return render_page(title(diagnosis), diagnosis.headline, sections, footer())


def title(diagnosis: LogDiagnosis) -> str:
    """What the diagnosis is about."""
    application = inert(diagnosis.application or diagnosis.application_id) or "this application"
    return f"Which stages of {application} were skewed?"


def key_figures(diagnosis: LogDiagnosis) -> list[Card]:
    """The figures to see first."""
    version = f"Spark {inert(diagnosis.spark_version)}, " if diagnosis.spark_version else ""
    figures = [
        Card("Even tasks could save", f"{diagnosis.saved:.1f} s", "at most: a key stays in one task", True),
        Card("Where unskew could help", f"{diagnosis.saved_by_unskew:.1f} s", "keys decide where records go"),
        Card("Uneven stages", f"{diagnosis.uneven:,} of {diagnosis.stages:,}", _kept(diagnosis)),
        Card(
            "Tasks",
            f"{diagnosis.tasks:,}",
            f"{version}{diagnosis.task_seconds:,.1f} s in all; {diagnosis.failed_attempts:,} attempts failed",
        ),
        Card(
            "Shuffled over the network",
            f"{diagnosis.shuffle_remote / 1e6:,.1f} MB",
            f"and {diagnosis.shuffle_local / 1e6:,.1f} MB on the host that had written them",
        ),
    ]
    return figures if diagnosis.findings else figures[2:]


def stage_rows(diagnosis: LogDiagnosis) -> list[Row]:
    """One row a finding, the most time lost first; figures of the longest task are over the mean."""
    return [
        {
            "stage": found.stage.label,
            "cause": str(found.cause),
            "fixable": "yes" if found.advice.fixable else "no",
            "saved": found.saved,
            "length": found.stage.length,
            "tasks": len(found.stage.tasks),
            "longest": found.stage.longest.seconds,
            "mean": float(found.stage.seconds.mean()),
            "median": float(np.median(found.stage.seconds)),
            "records": _over_mean(found.stage, "shuffle_records", "input_records"),
            "bytes": _over_mean(found.stage, "shuffle_bytes", "input_bytes"),
        }
        for found in diagnosis.findings
    ]


def advice_rows(diagnosis: LogDiagnosis) -> list[Row]:
    """One row a finding: which part of the program it is, and what to do about it."""
    return [
        {"stage": found.stage.label, "where": where(found), "advice": inert(found.advice.text)}
        for found in diagnosis.findings
    ]


def where(finding: Finding) -> str:
    """The query, the operator and the key of a stage, as far as they are known."""
    stage = finding.stage
    query = f"query {stage.query.number}: {stage.query.description}" if stage.query else stage.name
    parts = [query]
    if stage.shuffle is not None:
        by = f" by {', '.join(stage.shuffle.key)}" if stage.shuffle.key else ""
        parts.append((stage.shuffle.operator or "repartition") + by)
    others = {"failed or stopped": stage.failed, "speculative": stage.speculative}
    parts += [f"{many} {kind} attempts" for kind, many in others.items() if many]
    if len(stage.tasks) < stage.expected:
        parts.append(f"{stage.expected - len(stage.tasks)} tasks not ended")
    return " · ".join(key_label(part, 120) for part in parts)


def _kept(diagnosis: LogDiagnosis) -> str:
    shown = len(diagnosis.findings)
    return (
        f"the worst {shown} are shown"
        if shown < diagnosis.uneven
        else "stages that lost time to a few long tasks"
    )


def _over_mean(stage: Stage, *fields: str) -> float | None:
    """How much the longest task had, over the mean, of the first of these that the stage read at all."""
    for field in fields:
        usual = float(np.mean([getattr(task, field) for task in stage.tasks]))
        if usual:
            return float(getattr(stage.longest, field) / usual)
    return None


def _saved(diagnosis: LogDiagnosis) -> Chart:
    from unskew.report import charts

    bars = [{"name": name(found), "value": found.saved} for found in diagnosis.findings]
    spec = charts.ranked(
        bars, highlight=name(diagnosis.findings[0]), x_title="seconds that even tasks could save", form=".1f"
    )
    columns = [Column("name", "stage"), Column("value", "could save", "{:.2f} s")]
    caption = (
        "A stage ends with its last task. This is how much earlier it could end if its tasks were even, on the same "
        "cores; of a stage with fewer tasks than cores, if all cores had shared its work."
    )
    return Chart("Time lost, by stage", spec, Table(columns, bars), caption)


def _strips(diagnosis: LogDiagnosis) -> Chart:
    from unskew.report import event_log_charts

    drawn = diagnosis.findings[:_DRAWN]
    rows = [row for found in drawn for row in _task_rows(found)]
    means = [{"name": name(found), "seconds": float(found.stage.seconds.mean())} for found in drawn]
    columns = [
        Column("name", "stage"),
        Column("task", "task"),
        Column("seconds", "time", "{:.2f} s"),
        Column("shuffle_records", "records read from the shuffle", "{:,}"),
        Column("shuffle_bytes", "bytes read from the shuffle", "{:,}"),
    ]
    caption = (
        f"A mark is a task, for the worst {len(drawn)} stages; the thick grey one is the mean. Marks far to the right "
        f"are what everybody waits for. Of more than {_TICKS} tasks the longest and a sample of the others are drawn."
    )
    return Chart(
        "How long each task took", event_log_charts.strips(rows, means), Table(columns, rows), caption
    )


def _task_rows(finding: Finding) -> list[Row]:
    order = sorted(finding.stage.tasks, key=lambda task: -task.seconds)
    if len(order) > _TICKS:
        half = _TICKS // 2
        sample = np.linspace(half, len(order) - 1, half).astype(int).tolist()
        order = order[:half] + [order[i] for i in sample]
    long = 2 * float(finding.stage.seconds.mean())
    return [
        {
            "name": name(finding),
            "task": task.index,
            "seconds": task.seconds,
            "long": task.seconds > long,
            "shuffle_records": task.shuffle_records,
            "shuffle_bytes": task.shuffle_bytes,
        }
        for task in order
    ]


def name(finding: Finding) -> str:
    """A stage's number with its operator, or with what is wrong with it."""
    stage = finding.stage
    what = stage.shuffle.operator if stage.shuffle and stage.shuffle.operator else str(finding.cause)
    return f"stage {stage.label}: {what}"


def _method(source: str) -> list[str]:
    texts = [f"Log: {inert(source)}."] if source else []
    return [
        *texts,
        "A task's time is from its launch to its end, successful attempts only, one a partition. A stage's length is "
        "what these tasks take when each starts on the next free core, on as many cores as the stage had at once; its "
        "even length is the same with every task at the mean. The difference is the most that could be saved: the "
        "log does not say how heavy single keys are, and a key stays whole. “unskew diagnose” on the data tells.",
        "A cause is named if it explains at least half of what the longest task took beyond the mean. “×” is times the "
        "mean. Stages that ran at the same time share cores, so what they could save does not simply add up.",
    ]
