"""A job in words: what `unskew run --check` shows."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from unskew.jobs.job import FILES, Job, Operator, Sink, Source


def outline(job: Job) -> list[tuple[str, str]]:
    """What the job would do, row by row."""
    rows = [("source", f"{_end(job.source)}{', as a stream' if job.is_stream else ''}")]
    if job.source.time is not None:
        late = "any time late" if job.source.watermark is None else f"at most {job.source.watermark} late"
        rows.append(("time", f"{job.source.time}, {late}"))
    rows += [("operator" if i == 0 else "then", _operator(one)) for i, one in enumerate(job.operator)]
    rows += [("sink", _end(job.sink)), ("plan", _plan(job))]
    if job.is_stream:
        rows += [("policy", _policy(job)), ("trigger", job.trigger or "as soon as a batch is done")]
        rows += [("checkpoint", job.path(str(job.checkpoint)))]
    for name in ("budget", "scaling"):
        if getattr(job, name) is not None:
            rows.append((name, _figures(getattr(job, name))))
    return rows


def _end(end: Source | Sink) -> str:
    if end.format is None:
        return f"the function {getattr(end, 'function', '')}"
    if end.format == "kafka":
        return f"the topic {end.topic} of {end.servers}"
    if end.format == "memory":
        return f"the view global_temp.{getattr(end, 'name', '')}"
    return f"{end.format} files in {end.path}" if end.format in FILES else end.format


def _operator(one: Operator) -> str:
    does = ", ".join(map(str, one.aggregates)) or str(one.update or one.update_each or one.apply)
    extra = [f"{name} {getattr(one, name)}" for name in ("window", "slide", "ttl") if getattr(one, name)]
    return "; ".join([f"by {', '.join(one.key)}: {does}", *extra])


def _plan(job: Job) -> str:
    plan = job.plan
    usual = "auto" if not job.is_stream else "keel" if len(job.operator) == 1 else "locality"
    most = "" if plan.max_slots is None else f", at most {plan.max_slots}"
    slots = "slots by the cores" if plan.slots is None else f"{plan.slots} slots"
    begun = "" if plan.file is None else f", beginning with {plan.file}"
    return f"{slots}{most}, planner {plan.planner or usual}{begun}"


def _policy(job: Job) -> str:
    if job.policy is None:
        return "the table is fixed"
    return _figures(job.policy)


def _figures(settings: Any) -> str:
    return ", ".join(f"{one.name} {getattr(settings, one.name)}" for one in fields(settings))
