"""What a job file says, checked as far as that is possible without Spark and without its data."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from unskew.core.migration.policy import Policy
from unskew.core.migration.scaling import LoadRange, Scaling, Utilisation
from unskew.core.migration.transition import Budget
from unskew.core.planners import planner_named
from unskew.core.routing import check_slots
from unskew.jobs.aggregates import Kept, aggregates
from unskew.jobs.settings import (
    Mode,
    Place,
    a,
    check_names,
    figures,
    flag,
    function,
    meant,
    one_of,
    one_or_more,
    plain_values,
    read_table,
    setting,
    settings_of,
    table,
    text,
    texts,
    whole,
)

FILES = ("parquet", "csv", "json", "text")
MODES = ("stream", "batch")
SCALINGS: dict[str, type[LoadRange | Utilisation]] = {"load-range": LoadRange, "utilisation": Utilisation}


def policy(value: Any, place: Place) -> Policy | None:
    """When to switch; None for a fixed table."""
    found = figures(Policy, "fixed")(value, place)
    fixed = flag(value.get("fixed", False), place.within("fixed"))
    if fixed and len(value) > 1:
        raise place.wrong("a table that is fixed needs no other setting: leave fixed or the others out")
    return None if fixed else found


def scaling(value: Any, place: Place) -> Scaling:
    """The rule for the number of slots."""
    if "rule" not in table(value, place):
        known = ["rule", *(one.name for rule in SCALINGS.values() for one in fields(rule))]
        check_names(value, known, place.inside)
        raise place.within("rule").wrong(f"this setting is missing: name {' or '.join(SCALINGS)}")
    rule = one_of(*SCALINGS)(value["rule"], place.within("rule"))
    return figures(SCALINGS[rule], "rule")(value, place)


def sample(value: Any, place: Place) -> str | int | float:
    """How much of the data is looked at."""
    if isinstance(value, bool) or not (value in ("auto", "all") or isinstance(value, int | float)):
        raise place.wrong(f"write 'auto', 'all', a share such as 0.1 or a number of rows, not {value!r}")
    return cast(str | int | float, value)


def trigger(value: Any, place: Place) -> str:
    """When a batch starts."""
    if not isinstance(value, str) or not re.fullmatch(
        r"availableNow|\d+ (millisecond|second|minute|hour|day)s?", value
    ):
        hint = meant(str(value), ["availableNow"])
        raise place.wrong(
            f"write 'availableNow' or an interval like '10 seconds', not {value!r}: {hint}".rstrip(": ")
        )
    return value


@dataclass(frozen=True)
class Source:
    """Where the records come from, and which column is their time."""

    format: str = setting(one_of(*FILES, "kafka", "rate"))
    path: str | None = setting(text, None)
    servers: str | None = setting(text, None)
    topic: str | None = setting(text, None)
    schema: str | None = setting(text, None)
    columns: dict[str, Any] = setting(plain_values, {})
    options: dict[str, Any] = setting(plain_values, {})
    time: str | None = setting(text, None, only="stream")
    watermark: str | None = setting(text, None, only="stream")

    def __post_init__(self) -> None:
        _check_address(self)
        if self.format in ("rate", "text") and self.schema is not None:
            raise ValueError(f"schema: {self.format} has its own columns: leave it out")
        if self.watermark is not None and self.time is None:
            raise ValueError("watermark: it needs time, the event-time column")


@dataclass(frozen=True)
class Operator:
    """What is done for each key: aggregates, or a function of yours."""

    key: tuple[str, ...] = setting(texts)
    aggregates: tuple[Kept, ...] = setting(aggregates, ())
    update: str | None = setting(function, None, only="stream")
    update_each: str | None = setting(function, None, only="stream")
    apply: str | None = setting(function, None, only="batch")
    merge: str | None = setting(function, None, only="batch")
    output: str | None = setting(text, None)
    state: str | None = setting(text, None, only="stream")
    expired: str | None = setting(function, None, only="stream")
    ttl: str | None = setting(text, None, only="stream")
    window: str | None = setting(text, None, only="stream")
    slide: str | None = setting(text, None, only="stream")
    emit: str | None = setting(one_of("changed", "closed"), None, only="stream")

    def __post_init__(self) -> None:
        named = [n for n in ("aggregates", "update", "update_each", "apply") if getattr(self, n)]
        if len(named) != 1:
            found = f"not {' and '.join(named)}" if named else "there is none"
            raise ValueError(
                "aggregates: say what to do for each key: either aggregates or one function "
                f"(update or update_each of a stream, apply of a batch job), {found}"
            )
        if self.aggregates:
            _refuse(self, ("output", "state", "expired", "merge"), "aggregates")
            return
        _refuse(self, ("window", "slide", "emit"), named[0])
        if self.output is None:
            raise ValueError(
                f"output: {named[0]} needs the columns that it puts out, like 'user string, n long'"
            )
        if self.state is None and self.apply is None:
            raise ValueError(f"state: {named[0]} needs the columns that it keeps for a key, like 'n long'")


@dataclass(frozen=True)
class Sink:
    """Where the results go."""

    format: str | None = setting(one_of(*FILES, "kafka", "console", "memory"), None)
    function: str | None = setting(function, None)
    path: str | None = setting(text, None)
    servers: str | None = setting(text, None)
    topic: str | None = setting(text, None)
    name: str | None = setting(text, None, only="stream")
    mode: str | None = setting(one_of("error", "overwrite", "append"), None, only="batch")
    options: dict[str, Any] = setting(plain_values, {}, only="batch")
    persist: bool = setting(flag, False, only="stream")

    def __post_init__(self) -> None:
        if (self.format is None) == (self.function is None):
            raise ValueError("format: name either a format or a function that writes the results")
        _check_address(self)
        if (self.format == "memory") != (self.name is not None):
            raise ValueError("name: a memory sink needs the name of its view, and only that has one")
        if self.name is not None and not self.name.isidentifier():
            raise ValueError(f"name: SQL must take it as it is, like totals, not {self.name!r}")
        if self.mode is not None and self.format not in FILES:
            raise ValueError("mode: only files that may be there already have one: leave it out")


@dataclass(frozen=True)
class Places:
    """How many slots there are, and who decides what goes where."""

    slots: int | None = setting(whole, None)
    max_slots: int | None = setting(whole, None, only="stream")
    planner: str | None = setting(text, None)
    options: dict[str, Any] = setting(plain_values, {}, only="stream")
    buckets: int | None = setting(whole, None)
    file: str | None = setting(text, None)
    sample: str | int | float | None = setting(sample, None, only="batch")
    weight: str | None = setting(text, None, only="batch")

    def __post_init__(self) -> None:
        if self.planner is not None:
            _named("planner", planner_named, self.planner)
        if self.slots is not None and self.buckets is not None:
            _named("slots", check_slots, self.slots, self.buckets)
        if self.max_slots is not None and self.max_slots < (self.slots or 1):
            raise ValueError(f"max_slots: this is the most there can be: at least slots = {self.slots}")


@dataclass(frozen=True)
class Cluster:
    """Where Spark runs, and its settings."""

    master: str | None = setting(text, None)
    conf: dict[str, Any] = setting(plain_values, {})


@dataclass(frozen=True)
class Job:
    """A whole job: what `unskew run` runs. Relative paths start at `folder`, where the job file is."""

    mode: Mode = setting(one_of(*MODES))
    source: Source = setting(a(Source))
    operator: tuple[Operator, ...] = setting(one_or_more(Operator))
    sink: Sink = setting(a(Sink))
    plan: Places = setting(a(Places), Places())
    policy: Policy | str | None = setting(policy, "default", only="stream")
    budget: Budget | None = setting(figures(Budget), None, only="stream")
    scaling: Scaling | None = setting(scaling, None, only="stream")
    spark: Cluster = setting(a(Cluster), Cluster())
    checkpoint: str | None = setting(text, None, only="stream")
    trigger: str | None = setting(trigger, None, only="stream")
    name: str | None = setting(text, None, only="stream")
    file: Path = Path()

    def __post_init__(self) -> None:
        if self.mode == "stream":
            _check_stream(self)
        else:
            _check_batch(self)

    @property
    def is_stream(self) -> bool:
        """Whether it runs until it is stopped (or until all input is read, with the trigger `availableNow`)."""
        return self.mode == "stream"

    @property
    def folder(self) -> Path:
        """Where the job file is."""
        return self.file.absolute().parent

    def path(self, name: str) -> str:
        """A path of the job file as Spark is told it."""
        return name if re.match(r"[A-Za-z][\w+.-]*:/", name) else str(self.folder / name)


def read_job(file: Path) -> Job:
    """Read and check a job file; a mistake is a ValueError that names file, table and setting."""
    try:
        return replace(parse_job(tomllib.loads(file.read_text("utf-8"))), file=file)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def parse_job(values: Mapping[str, Any]) -> Job:
    """The job that the values of a TOML file describe."""
    check_names(values, settings_of(Job), "")
    if "mode" not in values:
        raise ValueError("mode: this setting is missing: write mode = 'stream' or mode = 'batch'")
    mode = one_of(*MODES)(values["mode"], Place("", "mode", "batch"))
    return read_table(Job, values, "", mode)


def _check_address(end: Source | Sink) -> None:
    """Files have a path, Kafka has servers and a topic, and nothing else has either."""
    needed = ("path",) if end.format in FILES else ("servers", "topic") if end.format == "kafka" else ()
    for name in ("path", "servers", "topic"):
        given = getattr(end, name) is not None
        if given and name not in needed:
            raise ValueError(f"{name}: {end.format or 'a function'} has none: leave it out")
        if not given and name in needed:
            raise ValueError(f"{name}: this setting is missing, and {end.format} needs it")


def _refuse(operator: Operator, names: tuple[str, ...], beside: str) -> None:
    for name in names:
        if getattr(operator, name) is not None:
            raise ValueError(f"{name}: this does not go with {beside}: leave it out")


def _named(name: str, check: Callable[..., object], *values: Any) -> None:
    try:
        check(*values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _check_stream(job: Job) -> None:
    if job.checkpoint is None:
        raise ValueError("checkpoint: this setting is missing: a stream keeps its state there")
    if job.source.format in ("parquet", "csv", "json") and job.source.schema is None:
        raise ValueError("[source] schema: a stream of files needs it, like 'user string, at timestamp'")
    if job.sink.format in ("csv", "json", "text"):
        raise ValueError(
            f"[sink] format: a stream does not write {job.sink.format}: "
            "use parquet, kafka, console, memory or a function"
        )
    planner = job.plan.planner or ("locality" if len(job.operator) > 1 else "keel")
    if planner_named(planner).splits:
        raise ValueError(
            f"[plan] planner: {planner} splits keys, but a key's state is in one place: choose another"
        )
    if not (planner == "locality" and len(job.operator) > 1):
        check_names(job.plan.options, planner_named(planner).options, "plan.options")


def _check_batch(job: Job) -> None:
    if job.source.format == "rate":
        raise ValueError("[source] format: rate never ends: set mode = 'stream'")
    if job.sink.format == "memory":
        raise ValueError("[sink] format: memory ends with the job: choose another")
    for i, operator in enumerate(job.operator[:-1], 1):
        if operator.apply is None:
            raise ValueError(
                f"[operator {i}] aggregates: only the last operator of a batch job may have them"
            )
    if len(job.operator) > 1 and any(operator.merge for operator in job.operator):
        raise ValueError("[operator] merge: operators in a row keep keys whole: leave it out")
