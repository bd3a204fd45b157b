"""Measured, explicit key placement for skewed Apache Spark jobs and streams.

This module is the whole public API; a user never imports a deeper one.

>>> import unskew
>>> h = unskew.Histogram.from_counts({"a": 10, "b": 3, "c": 3}, buckets=256)
>>> unskew.plan(h, slots=2)
Plan(auto, 2 slots, 3 heavy keys, imbalance 1.250, bound 1.250)
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew import samples, sketches, windows
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.plan import ChainPlan
from unskew.core.diagnosis import Diagnosis, HeavyKey, NextKey, Verdict
from unskew.core.histogram import Histogram
from unskew.core.history import History
from unskew.core.loads import Migration
from unskew.core.migration.budget import Budget
from unskew.core.migration.policy import Costs, Decision, Policy
from unskew.core.migration.scaling import LoadRange, Utilisation
from unskew.core.plan import Plan
from unskew.core.planners import PLANNERS as _PLANNERS
from unskew.core.review import PlanReview
from unskew.core.routing import RoutingTable
from unskew.core.saved_plan import load as _load
from unskew.core.splitting.join_choice import JoinChoice, JoinWay
from unskew.core.splitting.split_plan import SplitPlan
from unskew.streaming.driver.placement import Placement
from unskew.streaming.operators.aggregates import *  # noqa: F403  one line per aggregate, over there
from unskew.streaming.operators.aggregates import AGGREGATES
from unskew.streaming.operators.aggregation import Aggregate

if TYPE_CHECKING:
    from unskew.eventlog.findings import Finding
    from unskew.report.diagnosis_page import write_report
    from unskew.report.hints import Attached, attach
    from unskew.spark.chain import plan_chain
    from unskew.spark.chained_groups import ChainedGroups, PlannedChain
    from unskew.spark.cogrouped import Cogrouped
    from unskew.spark.diagnose import diagnose
    from unskew.spark.groupby import Grouped
    from unskew.spark.groupby import group_by as groupBy
    from unskew.spark.join import join
    from unskew.spark.kept import Kept
    from unskew.spark.keys import Key, KeyColumns
    from unskew.spark.latest import latest
    from unskew.spark.measure import Sample, measure
    from unskew.spark.no_measure import NoMeasure, no_measure
    from unskew.spark.observe import Observed, observe
    from unskew.spark.over import Over, PlannedWindow, over
    from unskew.spark.pivoted import Pivoted
    from unskew.spark.plan_join import plan_join
    from unskew.spark.repartition import repartition
    from unskew.spark.salt import salt
    from unskew.spark.shuffle_metrics import ShuffleMetrics, ShuffleRead
    from unskew.spark.window import window
    from unskew.streaming.api.state import journal, state
    from unskew.streaming.api.stream import StatefulStream, Stream, stream
    from unskew.streaming.driver.query import LiveQuery

__version__ = "0.1.0"

__all__ = [
    *AGGREGATES,
    "Aggregate",
    "Attached",
    "Budget",
    "ChainPlan",
    "ChainedGroups",
    "Cogrouped",
    "Costs",
    "Decision",
    "Diagnosis",
    "Finding",
    "Grouped",
    "HeavyKey",
    "Histogram",
    "History",
    "JoinChoice",
    "JoinWay",
    "Kept",
    "Key",
    "KeyColumns",
    "LiveQuery",
    "LoadRange",
    "Migration",
    "NextKey",
    "NoMeasure",
    "Observed",
    "Over",
    "PairHistogram",
    "Placement",
    "Pivoted",
    "Plan",
    "PlanReview",
    "PlannedChain",
    "PlannedWindow",
    "Policy",
    "RoutingTable",
    "Sample",
    "ShuffleMetrics",
    "ShuffleRead",
    "SplitPlan",
    "StatefulStream",
    "Stream",
    "Utilisation",
    "Verdict",
    "attach",
    "diagnose",
    "groupBy",
    "join",
    "journal",
    "latest",
    "load",
    "measure",
    "no_measure",
    "observe",
    "over",
    "plan",
    "plan_chain",
    "plan_join",
    "planners",
    "repartition",
    "salt",
    "samples",
    "sketches",
    "state",
    "stream",
    "window",
    "windows",
    "write_report",
]

_LATER = {
    "attach": ("unskew.report.hints", "attach"),
    "Attached": ("unskew.report.hints", "Attached"),
    "Finding": ("unskew.eventlog.findings", "Finding"),
    "groupBy": ("unskew.spark.groupby", "group_by"),
    "Grouped": ("unskew.spark.groupby", "Grouped"),
    "Cogrouped": ("unskew.spark.cogrouped", "Cogrouped"),
    "ChainedGroups": ("unskew.spark.chained_groups", "ChainedGroups"),
    "PlannedChain": ("unskew.spark.chained_groups", "PlannedChain"),
    "join": ("unskew.spark.join", "join"),
    "Kept": ("unskew.spark.kept", "Kept"),
    "Pivoted": ("unskew.spark.pivoted", "Pivoted"),
    "NoMeasure": ("unskew.spark.no_measure", "NoMeasure"),
    "no_measure": ("unskew.spark.no_measure", "no_measure"),
    "Key": ("unskew.spark.keys", "Key"),
    "KeyColumns": ("unskew.spark.keys", "KeyColumns"),
    "latest": ("unskew.spark.latest", "latest"),
    "measure": ("unskew.spark.measure", "measure"),
    "Sample": ("unskew.spark.measure", "Sample"),
    "plan_chain": ("unskew.spark.chain", "plan_chain"),
    "plan_join": ("unskew.spark.plan_join", "plan_join"),
    "ShuffleMetrics": ("unskew.spark.shuffle_metrics", "ShuffleMetrics"),
    "ShuffleRead": ("unskew.spark.shuffle_metrics", "ShuffleRead"),
    "diagnose": ("unskew.spark.diagnose", "diagnose"),
    "repartition": ("unskew.spark.repartition", "repartition"),
    "salt": ("unskew.spark.salt", "salt"),
    "observe": ("unskew.spark.observe", "observe"),
    "Observed": ("unskew.spark.observe", "Observed"),
    "over": ("unskew.spark.over", "over"),
    "Over": ("unskew.spark.over", "Over"),
    "PlannedWindow": ("unskew.spark.over", "PlannedWindow"),
    "window": ("unskew.spark.window", "window"),
    "write_report": ("unskew.report.diagnosis_page", "write_report"),
    "stream": ("unskew.streaming.api.stream", "stream"),
    "state": ("unskew.streaming.api.state", "state"),
    "journal": ("unskew.streaming.api.state", "journal"),
    "Stream": ("unskew.streaming.api.stream", "Stream"),
    "StatefulStream": ("unskew.streaming.api.stream", "StatefulStream"),
    "LiveQuery": ("unskew.streaming.driver.query", "LiveQuery"),
}
"""Names that need PySpark or a drawing library: imported when first used, so that planning works without."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'unskew' has no attribute {name!r}")
    module, attribute = _LATER[name]
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("pyspark", "pandas"):
            raise
        raise ModuleNotFoundError(f"unskew.{name} needs PySpark: pip install 'unskew[spark]'") from error


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def plan(
    histogram: Histogram,
    slots: int,
    planner: str = "auto",
    previous: Plan | ChainPlan | RoutingTable | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> Plan:
    """Plan a routing table for `slots` slots from a measured histogram.

    `planner` is one of `planners()`. `previous` is the plan or table now in force: the planner moves as little from it
    as it can. `options` are the planner's own (see its docstring).

    >>> import unskew
    >>> h = unskew.Histogram.from_counts({"a": 10, "b": 3, "c": 3}, buckets=256)
    >>> unskew.plan(h, slots=2, planner="kip").table.slot_of(["a", "b", "c"]).tolist()
    [0, 1, 1]
    """
    if isinstance(previous, ChainPlan):
        raise ValueError("previous is a plan for chained operators: pass it to unskew.plan_chain")
    if not isinstance(histogram, Histogram):
        raise ValueError(
            f"histogram is what unskew.measure returns, not a {type(histogram).__name__}: "
            "unskew.plan(unskew.measure(df, key), slots)"
        )
    return Plan.make(histogram, slots, planner, previous, seed=seed, **options)


def load(path: str | Path) -> Plan | ChainPlan:
    """Read a plan that `Plan.save` or `ChainPlan.save` wrote; a damaged or newer file is refused by name.

    `path` may be an address of any file system that Arrow or Spark reaches, such as `s3a://bucket/user.plan`.

    >>> import tempfile, unskew
    >>> path = tempfile.mkdtemp() + "/user.plan"
    >>> unskew.plan(unskew.Histogram.from_counts({"a": 10, "b": 3}, buckets=256), slots=2).save(path)
    >>> unskew.load(path).slots
    2
    """
    return _load(path)


def planners() -> tuple[str, ...]:
    """The names of all planners.

    >>> import unskew
    >>> "keel" in unskew.planners()
    True
    """
    return tuple(_PLANNERS)
