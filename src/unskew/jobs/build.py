"""From a job to the operators of unskew's public API; nothing is written, and until `result` nothing measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import unskew
from unskew.jobs.aggregates import for_batch, for_stream
from unskew.jobs.code import load_function
from unskew.jobs.errors import naming
from unskew.jobs.job import Job, Operator
from unskew.jobs.source_and_sink import sink_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unskew.streaming.api.stream import StatefulStream, Stream
    from unskew.streaming.driver.query import LiveQuery


def operation(job: Job, events: DataFrame) -> StatefulStream:
    """The operators of a stream, ready to start."""
    source, first = job.source, job.operator[0]
    with naming(job, "operator"):
        made = _streamed(
            job, first, unskew.stream(events, first.key, time=source.time, watermark=source.watermark)
        )
    for number, operator in enumerate(job.operator[1:], 2):
        with naming(job, f"operator {number}"):
            made = _streamed(job, operator, made.thenBy(*operator.key))
    return made


def start(job: Job, ready: StatefulStream) -> LiveQuery:
    """Start a stream."""
    plan = job.plan
    sink, saved = sink_of(job), _saved(job)
    with naming(job):
        return ready.start(
            sink,
            checkpoint=job.path(str(job.checkpoint)),
            slots=plan.slots,
            plan=saved,
            policy=job.policy,
            placement=unskew.Placement(
                max_slots=plan.max_slots,
                planner=plan.planner,
                options=plan.options,
                budget=job.budget,
                scaling=job.scaling,
                buckets=plan.buckets,
            ),
            trigger=job.trigger,
            name=job.name,
            persist=job.sink.persist,
        )


def groups(job: Job, df: DataFrame) -> Any:
    """The rows of a batch job under their keys: what `unskew.groupBy` returns, or `thenBy`."""
    plan, (first, *others) = job.plan, job.operator
    saved = _saved(job)
    asked = {"slots": plan.slots, "planner": plan.planner, "buckets": plan.buckets, "weight": plan.weight}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if plan.sample is not None:
        options["sample"] = None if plan.sample == "all" else plan.sample
    with naming(job, "operator"):
        if not others:
            return unskew.groupBy(df, *first.key, plan=saved, **options)
        made: Any = unskew.groupBy(df, *first.key, **options).thenBy(*others[0].key, plan=saved)
        for operator in others[1:]:
            made = made.thenBy(*operator.key)
        return made


def result(job: Job, grouped: Any) -> DataFrame:
    """What the operators of a batch job make of the groups; measures the keys."""
    made = grouped
    for operator in job.operator:
        with naming(job, "operator"):
            if operator.apply is None:
                made = made.agg(*(for_batch(kept) for kept in operator.aggregates))
            else:
                merge = {"merge": load_function(operator.merge, job.folder)} if operator.merge else {}
                made = made.applyInPandas(load_function(operator.apply, job.folder), operator.output, **merge)
    df: DataFrame = made
    return df


def check_functions(job: Job) -> None:
    """Refuse functions that are not there."""
    for operator in job.operator:
        with naming(job, "operator"):
            for name in (
                operator.update,
                operator.update_each,
                operator.apply,
                operator.merge,
                operator.expired,
            ):
                if name is not None:
                    load_function(name, job.folder)
    if job.sink.function is not None:
        sink_of(job)


def _streamed(job: Job, operator: Operator, stream: Stream) -> StatefulStream:
    if operator.aggregates:
        return stream.aggregate(
            window=operator.window,
            slide=operator.slide,
            emit=operator.emit,
            ttl=operator.ttl,
            **{kept.name: for_stream(kept) for kept in operator.aggregates},
        )
    keep = stream.update if operator.update is not None else stream.update_each
    expired = operator.expired
    return keep(
        load_function(str(operator.update or operator.update_each), job.folder),
        output=str(operator.output),
        state=str(operator.state),
        ttl=operator.ttl,
        expired=None if expired is None else load_function(expired, job.folder),
    )


def _saved(job: Job) -> Any:
    """The plan to begin with, which the job may name."""
    if job.plan.file is None:
        return None
    with naming(job, "plan"):
        file = job.path(job.plan.file)
        return unskew.Plan.load(file) if len(job.operator) == 1 else unskew.ChainPlan.load(file)
