"""A job in words: what `unskew run --check` prints."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from unskew.core.migration.budget import Budget
from unskew.jobs.job import Job


def outline(job: Job) -> list[tuple[str, str]]:
    """What the job will do, row by row."""
    rows = [("source", f"{job.source}{', as a stream' if job.is_stream else ''}")]
    if job.source.time is not None:
        late = "any time late" if job.source.watermark is None else f"at most {job.source.watermark} late"
        rows.append(("time", f"{job.source.time}, {late}"))
    rows += [("then" if i else "operator", str(operator)) for i, operator in enumerate(job.operator)]
    rows += [("sink", str(job.sink)), ("plan", _plan(job))]
    if job.is_stream:
        rows += [("policy", _policy(job)), ("trigger", job.trigger or "as soon as a batch is done")]
        rows += [("checkpoint", job.path(str(job.checkpoint)))]
    if job.budget != Budget.sudden():
        rows.append(("budget", _numbers(job.budget)))
    if job.scaling is not None:
        rows.append(("scaling", _numbers(job.scaling)))
    return rows


def _plan(job: Job) -> str:
    plan = job.plan
    most = "" if plan.max_slots is None else f", at most {plan.max_slots}"
    slots = "slots by the cores" if plan.slots is None else f"{plan.slots} slots"
    first = "" if plan.file is None else f", starting with {plan.file}"
    return f"{slots}{most}, planner {job.planner}{first}"


def _policy(job: Job) -> str:
    if job.policy is None:
        return "the table is fixed"
    if job.is_planned_jointly:
        options = [f"{name} {value}" for name, value in job.plan.options.items()]
        return ", ".join(["chained operators are planned together", *options])
    return _numbers(job.policy)


def _numbers(settings: Any) -> str:
    return ", ".join(f"{field.name} {getattr(settings, field.name)}" for field in fields(settings))
