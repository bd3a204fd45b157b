"""The page about an event log: its key figures, the tables of its findings, and the HTML with their charts."""

from __future__ import annotations

import numpy as np

from unskew.core.addresses import Address
from unskew.eventlog.findings import Finding, LogDiagnosis
from unskew.eventlog.stages import Stage
from unskew.report.diagnosis_page import footer
from unskew.report.page import Card, Cards, Chart, Column, Row, Section, Table, Text, render, write
from unskew.report.text import counted, inert, key_label

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

_MOST_STAGES = 8
"""Stages in the chart of tasks: more would not fit on a screen."""

_MOST_TASKS = 200
"""Tasks of a stage in that chart."""


def write_log_report(diagnosis: LogDiagnosis, path: Address, *, source: str = "") -> Address:
    """Write the diagnosis as an HTML page that needs no network; `source` says where the log came from."""
    try:
        page = log_page(diagnosis, source=source)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a report needs {error.name}: pip install 'unskew[cli]'") from error
    return write(path, page)


def log_page(diagnosis: LogDiagnosis, *, source: str = "") -> str:
    """The page as one HTML document without external assets."""
    sections = [Section("In short", [Cards(log_figures(diagnosis))])]
    if diagnosis.findings:
        fixable = frozenset(i for i, finding in enumerate(diagnosis.findings) if finding.advice.fixable)
        sections += [
            Section(
                "Where time was lost", [_saved(diagnosis), Table(STAGES, stage_rows(diagnosis), fixable)]
            ),
            Section("What to do", [Table(ADVICE, advice_rows(diagnosis), fixable)]),
            Section("The tasks", [_strips(diagnosis)]),
        ]
    sections.append(Section("How this was made", [Text(text) for text in _method(source)]))
    return render(log_title(diagnosis), diagnosis.headline, sections, footer())


def log_title(diagnosis: LogDiagnosis) -> str:
    """What the diagnosis is about."""
    application = inert(diagnosis.application or diagnosis.application_id) or "this application"
    return f"Which stages of {application} were skewed?"


def log_figures(diagnosis: LogDiagnosis) -> list[Card]:
    """The figures to see first."""
    failed = counted(diagnosis.failed_attempts, "attempt")
    version = f"Spark {inert(diagnosis.spark_version)}, " if diagnosis.spark_version else ""
    figures = [
        Card(
            "Even tasks could save",
            f"{diagnosis.saved:.1f} s",
            "at most, because a key stays in one task",
            True,
        ),
        Card("Where unskew could help", f"{diagnosis.saved_by_unskew:.1f} s", "keys decide where records go"),
        Card(
            "Uneven stages", f"{diagnosis.uneven:,} of {diagnosis.stages:,}", _how_many_are_listed(diagnosis)
        ),
        Card(
            "Tasks",
            f"{diagnosis.tasks:,}",
            f"{version}{diagnosis.task_seconds:,.1f} s in total; {failed} failed",
        ),
        Card(
            "Shuffled over the network",
            f"{diagnosis.shuffle_remote / 1e6:,.1f} MB",
            f"and {diagnosis.shuffle_local / 1e6:,.1f} MB read on the host that wrote them",
        ),
    ]
    return figures if diagnosis.findings else figures[2:]


def stage_rows(diagnosis: LogDiagnosis) -> list[Row]:
    """One row per finding, most time lost first; records and bytes are those of the longest task, over the mean."""
    return [
        {
            "stage": finding.stage.label,
            "cause": str(finding.cause),
            "fixable": "yes" if finding.advice.fixable else "no",
            "saved": finding.saved,
            "length": finding.stage.length,
            "tasks": len(finding.stage.tasks),
            "longest": finding.stage.longest.seconds,
            "mean": float(finding.stage.seconds.mean()),
            "median": float(np.median(finding.stage.seconds)),
            "records": _over_mean(finding.stage, "shuffle_records", "input_records"),
            "bytes": _over_mean(finding.stage, "shuffle_bytes", "input_bytes"),
        }
        for finding in diagnosis.findings
    ]


def advice_rows(diagnosis: LogDiagnosis) -> list[Row]:
    """One row per finding: which part of the program it is, and what to do about it."""
    return [
        {"stage": finding.stage.label, "where": where(finding), "advice": inert(finding.advice.text)}
        for finding in diagnosis.findings
    ]


def where(finding: Finding) -> str:
    """The query, the operator and the key of a stage, as far as they are known."""
    stage = finding.stage
    query = f"query {stage.query.number}: {stage.query.description}" if stage.query else stage.name
    parts = [query]
    if stage.shuffle is not None:
        parts.append(str(stage.shuffle))
    attempts = {"failed or stopped": stage.failed, "speculative": stage.speculative}
    parts += [counted(count, f"{kind} attempt") for kind, count in attempts.items() if count]
    if len(stage.tasks) < stage.expected:
        parts.append(f"{counted(stage.expected - len(stage.tasks), 'task')} not finished")
    return " · ".join(key_label(part, 120) for part in parts)


def _how_many_are_listed(diagnosis: LogDiagnosis) -> str:
    listed = len(diagnosis.findings)
    if listed < diagnosis.uneven:
        return f"the worst {listed} are listed"
    return "stages that lost time to a few long tasks"


def _over_mean(stage: Stage, *fields: str) -> float | None:
    """What the longest task read, over the mean: the first of these fields that is not zero throughout the stage."""
    for field in fields:
        mean = float(np.mean([getattr(task, field) for task in stage.tasks]))
        if mean:
            return float(getattr(stage.longest, field) / mean)
    return None


def _saved(diagnosis: LogDiagnosis) -> Chart:
    from unskew.report import charts

    bars = [{"name": stage_label(finding), "value": finding.saved} for finding in diagnosis.findings]
    spec = charts.ranked(
        bars,
        highlight=stage_label(diagnosis.findings[0]),
        x_title="seconds that even tasks could save",
        form=".1f",
    )
    columns = [Column("name", "stage"), Column("value", "could save", "{:.2f} s")]
    caption = (
        "A stage ends with its last task. This is how much earlier it could end on the same cores if its tasks were "
        "even; for a stage with fewer tasks than cores, if all cores shared its work."
    )
    return Chart("Time lost, by stage", spec, Table(columns, bars), caption)


def _strips(diagnosis: LogDiagnosis) -> Chart:
    from unskew.report import event_log_charts

    worst = diagnosis.findings[:_MOST_STAGES]
    rows = [row for finding in worst for row in _task_rows(finding)]
    means = [
        {"name": stage_label(finding), "seconds": float(finding.stage.seconds.mean())} for finding in worst
    ]
    columns = [
        Column("name", "stage"),
        Column("task", "task"),
        Column("seconds", "time", "{:.2f} s"),
        Column("shuffle_records", "records read from the shuffle", "{:,}"),
        Column("shuffle_bytes", "bytes read from the shuffle", "{:,}"),
    ]
    caption = (
        f"Each mark is a task of one of the {len(worst)} worst stages; the thick grey mark is the mean. The stage "
        f"waits for the marks far to the right. Of more than {_MOST_TASKS} tasks, the longest and a sample of the "
        "others are drawn."
    )
    return Chart(
        "How long each task took", event_log_charts.strips(rows, means), Table(columns, rows), caption
    )


def _task_rows(finding: Finding) -> list[Row]:
    order = sorted(finding.stage.tasks, key=lambda task: -task.seconds)
    if len(order) > _MOST_TASKS:
        half = _MOST_TASKS // 2
        sample = np.linspace(half, len(order) - 1, half).astype(int).tolist()
        order = order[:half] + [order[i] for i in sample]
    long = 2 * float(finding.stage.seconds.mean())
    return [
        {
            "name": stage_label(finding),
            "task": task.index,
            "seconds": task.seconds,
            "long": task.seconds > long,
            "shuffle_records": task.shuffle_records,
            "shuffle_bytes": task.shuffle_bytes,
        }
        for task in order
    ]


def stage_label(finding: Finding) -> str:
    """A stage's number with its operator, or with the cause if no operator is known."""
    stage = finding.stage
    operator = stage.shuffle.operator if stage.shuffle else ""
    return f"stage {stage.label}: {operator or finding.cause}"


def _method(source: str) -> list[str]:
    texts = [f"Log: {inert(source)}."] if source else []
    return [
        *texts,
        "A task's time is from its launch to its end; only the successful attempt counts, one per partition. A stage's "
        "length is how long these tasks take when each starts on the next free core, on as many cores as the stage "
        "used at once; its even length is the same with every task at the mean. The difference is the most that could "
        "be saved. The log does not say how heavy single keys are, and a key cannot be split: run “unskew diagnose” on "
        "the data to find out.",
        "A cause is named if it explains at least half of what the longest task took beyond the mean. “×” means "
        "times the mean. Stages that ran at the same time share cores, so their savings do not simply add up.",
    ]
