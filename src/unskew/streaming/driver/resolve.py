"""Step 1 of starting a query: the user's options checked and completed, before anything is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from unskew.core.chains.locality import check_options
from unskew.core.chains.metis import pymetis_module
from unskew.core.chains.plan import ChainPlan
from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.migration.policy import Policy
from unskew.core.plan import Plan
from unskew.core.planners import PLANNERS, planner_named
from unskew.core.routing import RoutingTable, check_slots
from unskew.spark.parallelism import cores_of
from unskew.spark.versions.private import is_remote
from unskew.streaming.driver.controller import Steering
from unskew.streaming.driver.joint_planning import JointPlanner
from unskew.streaming.driver.operator_spec import OperatorSpec
from unskew.streaming.driver.placement import Placement
from unskew.streaming.driver.sinks import Sink, built_in_sink, check_columns

SavedPlan = Plan | ChainPlan | str | Path


@dataclass(frozen=True)
class Resolved:
    """Everything that a query needs to know before its checkpoint is opened.

    `tables` are those of the plan to begin with, empty without one.
    """

    specs: Sequence[OperatorSpec]
    slots: int
    max_slots: int
    buckets: int
    tables: Sequence[RoutingTable]
    steering: Steering
    joint: JointPlanner | None
    sink: Sink
    trigger: Mapping[str, Any]
    name: str | None
    persist: bool


def resolve(
    specs: Sequence[OperatorSpec],
    sink: Sink | str,
    *,
    slots: int | None,
    plan: SavedPlan | None,
    policy: Policy | None,
    placement: Placement,
    trigger: Mapping[str, Any] | str | None,
    name: str | None,
    persist: bool,
) -> Resolved:
    """The options of `StatefulStream.start`, checked against the operators and each other."""
    if not isinstance(placement, Placement):
        raise ValueError(f"placement is an unskew.Placement, not {placement!r}")
    if policy is not None and not isinstance(policy, Policy):
        raise ValueError(f"policy is an unskew.Policy, or None for a fixed table, not {policy!r}")
    tables = _tables(specs, plan)
    slots, buckets = _sizes(specs, slots, placement.buckets, tables)
    max_slots = placement.max_slots if placement.max_slots is not None else slots
    check_slots(slots, buckets)
    check_slots(max_slots, buckets)
    if max_slots < slots:
        raise ValueError(f"max_slots is the most slots there can be: at least {slots}, not {max_slots}")
    planner = placement.planner or ("locality" if len(specs) > 1 else "keel")
    joint = _joint_planner(planner, policy, placement.options, specs)
    is_joint = planner == "locality" and len(specs) > 1
    steering = Steering(
        planner=planner,
        options={} if is_joint else dict(placement.options),
        policy=policy,
        budget=placement.budget,
        scaling=placement.scaling,
        max_slots=max_slots,
        operators=len(specs),
        remote=is_remote(),
    )
    write = built_in_sink(sink) if isinstance(sink, str) else sink
    if not callable(write):
        raise ValueError(f"sink is a function of (DataFrame, batch id) or a name, not {sink!r}")
    check_columns(write, specs[-1].operator.output.names)
    if {"EventTime", "ProcessingTime"} <= {spec.time_mode for spec in specs}:
        raise ValueError(
            "one operator goes by event time and another expires by the clock: Spark runs empty batches for one of "
            "them only; give both the same, or run two queries"
        )
    return Resolved(
        specs,
        slots,
        max_slots,
        buckets,
        tables,
        steering,
        joint,
        write,
        _trigger(trigger),
        name,
        persist,
    )


def _sizes(
    specs: Sequence[OperatorSpec], slots: int | None, buckets: int | None, tables: Sequence[RoutingTable]
) -> tuple[int, int]:
    """How many slots and buckets the query begins with."""
    if tables:
        planned = tables[0].slots, len(tables[0].buckets)
        if slots not in (None, planned[0]) or buckets not in (None, planned[1]):
            raise ValueError("the plan has its own numbers of slots and buckets: leave slots and buckets out")
        return planned
    slots = slots if slots is not None else cores_of(specs[0].input.sparkSession) or 4
    return slots, buckets if buckets is not None else DEFAULT_BUCKETS


def _tables(specs: Sequence[OperatorSpec], plan: SavedPlan | None) -> list[RoutingTable]:
    """The tables to begin with, checked against the operators; empty without a plan."""
    if plan is None:
        return []
    if isinstance(plan, str | Path):
        plan = ChainPlan.load(plan) if len(specs) > 1 else Plan.load(plan)
    if not isinstance(plan, Plan | ChainPlan):
        raise ValueError(
            f"plan is what unskew.plan or unskew.plan_chain returns, or its path, not a {type(plan).__name__}"
        )
    tables = list(plan.tables) if isinstance(plan, ChainPlan) else [plan.table]
    if len(tables) != len(specs):
        raise ValueError(
            f"the plan has tables for {len(tables)} operators, but there are {len(specs)}: plan_chain with their keys"
        )
    for spec, table in zip(specs, tables, strict=True):
        if not table.key_type.equals(spec.keys.type):
            raise ValueError(
                f"the plan is for {table.key_type} keys, but the key here is {spec.keys.type}: "
                "measure and plan again"
            )
        if table.is_split:
            raise ValueError(
                "the plan splits keys over slots, but a key's state is in one place: choose another planner"
            )
    if len({(table.slots, len(table.buckets)) for table in tables}) > 1:
        raise ValueError(
            "the operators of one query need the same number of slots and of buckets: plan them together"
        )
    return tables


def _joint_planner(
    planner: str, policy: Policy | None, options: Mapping[str, Any], specs: Sequence[OperatorSpec]
) -> JointPlanner | None:
    """What plans chained operators together, or None where each is planned alone; the planner's options checked."""
    declaration = planner_named(planner)
    if declaration.splits:
        whole = ", ".join(name for name, entry in PLANNERS.items() if not entry.splits)
        raise ValueError(
            f"planner {planner!r} splits keys over slots, but a key's state is in one place: use one of {whole}"
        )
    is_joint = planner == "locality" and len(specs) > 1
    if is_joint and policy not in (None, Policy()):
        raise ValueError(
            "chained operators are planned together, which is steered by Placement(options={'worth': …, 'every': …}): "
            "leave policy out, or plan each alone, as with planner='keel'"
        )
    if is_joint and options and policy is None:
        raise ValueError("policy=None keeps the tables fixed: leave the planner's options out")
    accepted = {"every", *_parameters(check_options)} if is_joint else set(declaration.options)
    unknown = sorted(set(options) - accepted)
    if unknown:
        listed = ", ".join(sorted(accepted)) or "none"
        raise ValueError(f"planner {planner!r} has no option {unknown[0]!r}: its options are {listed}")
    if not is_joint or policy is None:
        return None
    chain_options = dict(options)
    joint = JointPlanner(chain_options.pop("every", JointPlanner.every), chain_options)
    check_options(**chain_options)
    for upstream, spec in pairwise(specs):
        if spec.key_hash_before(upstream) is None:
            return None  # a record does not say which key it had before, so each operator is balanced alone
    pymetis_module()
    return joint


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _trigger(trigger: Mapping[str, Any] | str | None) -> dict[str, Any]:
    """The keyword arguments of `DataStreamWriter.trigger`."""
    if trigger is None:
        return {}
    if isinstance(trigger, str):
        return {"availableNow": True} if trigger == "availableNow" else {"processingTime": trigger}
    names = [name for name, value in trigger.items() if value is not None]
    for name in names:
        if name in ("realTime", "continuous"):
            raise ValueError(
                f"trigger {name!r} runs without batches, and state moves between slots from batch to batch: use "
                "processingTime or availableNow"
            )
        if name not in ("processingTime", "once", "availableNow"):
            raise ValueError(f"there is no trigger {name!r}: use processingTime or availableNow")
    return {name: trigger[name] for name in names}
