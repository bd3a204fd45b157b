"""From a job to the operators of unskew's public API. Nothing is written, and nothing is measured before `result`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unskew
from unskew.jobs.aggregates import batch_aggregate, stream_aggregate
from unskew.jobs.code import load_function
from unskew.jobs.errors import locate_errors
from unskew.jobs.job import Job
from unskew.jobs.operator import OperatorSettings
from unskew.jobs.sink import build_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unskew.streaming.api.stream import StatefulStream, Stream
    from unskew.streaming.driver.query import LiveQuery


def stateful_stream(job: Job, events: DataFrame) -> StatefulStream:
    """The operators of a stream, ready to start."""
    source, first = job.source, job.operator[0]
    with locate_errors(job, "operator"):
        stream = unskew.stream(events, first.key, time=source.time, watermark=source.watermark)
        chain = _operator(job, first, stream)
    for number, operator in enumerate(job.operator[1:], 2):
        with locate_errors(job, f"operator {number}"):
            chain = _operator(job, operator, chain.thenBy(*operator.key))
    return chain


def start(job: Job, ready: StatefulStream) -> LiveQuery:
    """Start a stream."""
    sink, saved = build_sink(job), _saved_plan(job)
    with locate_errors(job):
        return ready.start(sink, plan=saved, **_start_options(job))


def check(job: Job, ready: StatefulStream) -> None:
    """Refuse what `start` would refuse, and write nothing."""
    sink, saved = build_sink(job), _saved_plan(job)
    with locate_errors(job):
        ready.check(sink, plan=saved, **_start_options(job))


def _start_options(job: Job) -> dict[str, Any]:
    plan = job.plan
    return {
        "checkpoint": job.path(str(job.checkpoint)),
        "slots": plan.slots,
        "policy": job.policy,
        "placement": unskew.Placement(
            max_slots=plan.max_slots,
            planner=plan.planner,
            options=plan.options,
            budget=job.budget,
            scaling=job.scaling,
            buckets=plan.buckets,
        ),
        "trigger": job.trigger,
        "name": job.name,
        "persist": job.sink.persist,
    }


def groups(job: Job, df: DataFrame) -> Any:
    """The rows of a batch job grouped by key: what `unskew.groupBy` or `thenBy` returns."""
    plan, (first, *others) = job.plan, job.operator
    saved = _saved_plan(job)
    settings = {"slots": plan.slots, "planner": plan.planner, "buckets": plan.buckets, "weight": plan.weight}
    options: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if plan.sample is not None:
        options["sample"] = None if plan.sample == "all" else plan.sample
    with locate_errors(job, "operator"):
        if not others:
            return unskew.groupBy(df, *first.key, plan=saved, **options)
        grouped: Any = unskew.groupBy(df, *first.key, **options).thenBy(*others[0].key, plan=saved)
        for operator in others[1:]:
            grouped = grouped.thenBy(*operator.key)
        return grouped


def result(job: Job, grouped: Any) -> DataFrame:
    """What the operators of a batch job return for the groups; measures the keys."""
    for operator in job.operator:
        with locate_errors(job, "operator"):
            if operator.apply is None:
                grouped = grouped.agg(*map(batch_aggregate, operator.aggregates))
            else:
                function = load_function(operator.apply, job.folder)
                merge = {"merge": load_function(operator.merge, job.folder)} if operator.merge else {}
                grouped = grouped.applyInPandas(function, operator.output, **merge)
    # the last operator returns a DataFrame
    df: DataFrame = grouped
    return df


def check_functions(job: Job) -> None:
    """Refuse functions that cannot be imported."""
    for operator in job.operator:
        with locate_errors(job, "operator"):
            for name in operator.functions:
                load_function(name, job.folder)
    build_sink(job)


def _operator(job: Job, operator: OperatorSettings, stream: Stream) -> StatefulStream:
    if operator.aggregates:
        return stream.aggregate(
            window=operator.window,
            slide=operator.slide,
            emit=operator.emit,
            ttl=operator.ttl,
            **{settings.name: stream_aggregate(settings) for settings in operator.aggregates},
        )
    update = stream.update if operator.update is not None else stream.update_each
    expired = operator.expired
    return update(
        load_function(str(operator.update or operator.update_each), job.folder),
        output=str(operator.output),
        state=str(operator.state),
        ttl=operator.ttl,
        expired=None if expired is None else load_function(expired, job.folder),
    )


def _saved_plan(job: Job) -> Any:
    """The plan that the job starts with, if it names one."""
    if job.plan.file is None:
        return None
    with locate_errors(job, "plan"):
        file = job.path(job.plan.file)
        return unskew.Plan.load(file) if len(job.operator) == 1 else unskew.ChainPlan.load(file)
