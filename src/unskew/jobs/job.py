"""What a job file says, checked as far as possible without Spark and without the data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unskew.core.migration.budget import Budget
from unskew.core.migration.policy import Policy
from unskew.core.migration.scaling import Scaling
from unskew.core.planners import planner_named
from unskew.jobs.operator import OperatorSettings
from unskew.jobs.placement import PlacementSettings, read_policy, read_scaling
from unskew.jobs.settings import (
    Location,
    Mode,
    check_names,
    did_you_mean,
    numbers_of,
    one_of,
    plain_values,
    read_table,
    setting,
    settings_of,
    table_of,
    tables_of,
    text,
)
from unskew.jobs.sink import SinkSettings
from unskew.jobs.source import SourceSettings
from unskew.jobs.toml import parsed

MODES = ("stream", "batch")


def read_trigger(value: Any, location: Location) -> str:
    """When a batch starts."""
    if not isinstance(value, str) or not re.fullmatch(
        r"availableNow|\d+ (millisecond|second|minute|hour|day)s?", value
    ):
        hint = did_you_mean(str(value), ["availableNow"])
        raise location.error(
            f"write 'availableNow' or an interval like '10 seconds', not {value!r}: {hint}".rstrip(": ")
        )
    return value


@dataclass(frozen=True)
class SparkSettings:
    """Where Spark runs, and its configuration."""

    master: str | None = setting(text, None)
    conf: dict[str, Any] = setting(plain_values, {})


@dataclass(frozen=True)
class Job:
    """A whole job: what `unskew run` runs. Relative paths start at `folder`, where the job file is."""

    mode: Mode = setting(one_of(*MODES))
    source: SourceSettings = setting(table_of(SourceSettings))
    operator: tuple[OperatorSettings, ...] = setting(tables_of(OperatorSettings))
    sink: SinkSettings = setting(table_of(SinkSettings))
    plan: PlacementSettings = setting(table_of(PlacementSettings), PlacementSettings())
    policy: Policy | None = setting(read_policy, Policy(), only="stream")
    budget: Budget = setting(numbers_of(Budget), Budget.sudden(), only="stream")
    scaling: Scaling | None = setting(read_scaling, None, only="stream")
    spark: SparkSettings = setting(table_of(SparkSettings), SparkSettings())
    checkpoint: str | None = setting(text, None, only="stream")
    trigger: str | None = setting(read_trigger, None, only="stream")
    name: str | None = setting(text, None, only="stream")
    file: Path = Path()

    def __post_init__(self) -> None:
        self.sink.check_mode(self.mode)
        if self.is_stream:
            _check_stream(self)
        else:
            _check_batch(self)

    @property
    def is_stream(self) -> bool:
        """Whether it runs until it is stopped (or until all input is read, with the trigger `availableNow`)."""
        return self.mode == "stream"

    @property
    def planner(self) -> str:
        """The planner that `[plan]` names, or the default of such a job."""
        default = "auto" if not self.is_stream else "keel" if len(self.operator) == 1 else "locality"
        return self.plan.planner or default

    @property
    def is_planned_jointly(self) -> bool:
        """Whether the tables of a stream's chained operators are planned together, which no policy decides about."""
        return self.is_stream and len(self.operator) > 1 and self.planner == "locality"

    @property
    def folder(self) -> Path:
        """Where the job file is."""
        return self.file.absolute().parent

    def path(self, name: str) -> str:
        """A path of the job file as Spark takes it."""
        return name if re.match(r"[A-Za-z][\w+.-]*:/", name) else str(self.folder / name)


def read_job(file: Path) -> Job:
    """Read and check a job file; a mistake is a ValueError that names the file, the table and the setting."""
    try:
        return replace(parse_job(parsed(file.read_text("utf-8"))), file=file)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def parse_job(values: Mapping[str, Any]) -> Job:
    """The job that the values of a TOML file describe."""
    check_names(values, settings_of(Job), "")
    if "mode" not in values:
        raise ValueError("mode: this setting is missing: write mode = 'stream' or mode = 'batch'")
    mode = one_of(*MODES)(values["mode"], Location("", "mode", "batch"))
    return read_table(Job, values, "", mode)


def _check_stream(job: Job) -> None:
    if job.checkpoint is None:
        raise ValueError("checkpoint: this setting is missing: a stream keeps its state there")
    if job.source.format in ("parquet", "csv", "json") and job.source.schema is None:
        raise ValueError("[source] schema: a stream of files needs it, like 'user string, at timestamp'")
    if planner_named(job.planner).splits:
        raise ValueError(
            f"[plan] planner: {job.planner} splits keys, but a key's state is in one place: choose another"
        )
    if not job.is_planned_jointly:
        check_names(job.plan.options, planner_named(job.planner).options, "plan.options")
    elif job.policy not in (None, Policy()):
        raise ValueError(
            "[policy] chained operators are planned together, which a policy does not steer: set [plan] options "
            "worth and every instead, or plan each operator on its own with [plan] planner = 'keel'"
        )


def _check_batch(job: Job) -> None:
    if job.source.format == "rate":
        raise ValueError("[source] format: rate never ends: set mode = 'stream'")
    for i, operator in enumerate(job.operator[:-1], 1):
        if operator.apply is None:
            raise ValueError(
                f"[operator {i}] aggregates: only the last operator of a batch job may have them; "
                "give the others a function: apply"
            )
    if len(job.operator) > 1 and any(operator.merge for operator in job.operator):
        raise ValueError("[operator] merge: chained operators keep keys whole: leave it out")
