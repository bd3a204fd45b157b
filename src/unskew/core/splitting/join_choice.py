"""Which way a join should run: as Spark does it, by slot with whole keys, or by slot with hot keys split; and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from unskew.core.histogram import Floats
from unskew.core.join_load import JoinLoad, JoinType
from unskew.core.loads import imbalance
from unskew.core.plan import Plan
from unskew.core.planners.auto import expected_time
from unskew.core.scheduling import makespan
from unskew.core.splitting.split_plan import SplitPlan

Way: TypeAlias = Literal["plain", "whole", "split"]

_NAMES: dict[Way, str] = {"plain": "plain Spark", "whole": "whole keys", "split": "split keys"}


@dataclass(frozen=True)
class JoinWay:
    """One way to run a join.

    `time` is predicted, in units of perfectly even work on the same cores. It includes what measuring and routing
    cost. `imbalance` is the largest slot over the mean (for plain Spark, over random hashes); `copied` is the share of
    rows that are copied.
    """

    way: Way
    time: float
    imbalance: float
    copied: float = 0.0

    def __repr__(self) -> str:
        return f"JoinWay({self.way}, time {self.time:.2f}, imbalance {self.imbalance:.2f}, {self.copied:.1%} copied)"


@dataclass(frozen=True)
class JoinChoice:
    """The three ways to run a join beside each other, which of them is chosen, and the reason in one sentence.

    `print(choice)` shows them as a table. `split` is the plan that splits keys, `whole` the one that does not.
    """

    kind: JoinType
    slots: int
    cores: int
    ways: tuple[JoinWay, ...]
    chosen: Way
    reason: str
    whole: Plan
    split: SplitPlan

    def way(self, name: Way) -> JoinWay:
        """One of the three."""
        return next(way for way in self.ways if way.way == name)

    def __repr__(self) -> str:
        return f"JoinChoice({self.kind} join, {_NAMES[self.chosen]}: {self.reason})"

    def __str__(self) -> str:
        lines = [
            f"{self.kind} join, {self.slots} slots on {self.cores} cores",
            f"{'':13}{'time':>8}{'largest/mean':>14}{'copied':>8}",
        ]
        for way in self.ways:
            mark = "  <- chosen" if way.way == self.chosen else ""
            lines.append(
                f"{_NAMES[way.way]:13}{way.time:>8.2f}{way.imbalance:>14.2f}{way.copied:>8.1%}{mark}"
            )
        return "\n".join([*lines, self.reason])

    def to_dict(self) -> dict[str, Any]:
        """Everything but the plans as plain values, for JSON."""
        return {
            "kind": self.kind,
            "slots": self.slots,
            "cores": self.cores,
            "chosen": self.chosen,
            "reason": self.reason,
            "ways": [dict(vars(way)) for way in self.ways],
            "split_keys": len(self.split.keys),
        }


def choose_way(
    load: JoinLoad,
    kind: JoinType,
    whole: Plan,
    split: SplitPlan,
    *,
    cores: int,
    partitions: int,
    cost: float,
    split_cost: float,
    merged_share: float = 0.0,
    spark_splits: bool = False,
) -> JoinChoice:
    """The way that takes the least time on `cores` cores.

    Plain Spark hashes to `partitions` partitions, of which it merges neighbours with up to `merged_share` of all
    records. Its rivals measure and route, so a row read takes `cost` or `split_cost` times as long; rows emitted do
    not. `spark_splits` says that Spark splits the heaviest key itself.
    """
    slots, width = whole.slots, min(cores, whole.slots)
    # all in units of even work on `width` cores
    hashed = expected_time(load.hashed, partitions, cores, merged_share=merged_share)
    hashed *= width / min(cores, partitions)
    whole_loads = whole.loads + load.spread / slots
    ways = (
        JoinWay("plain", hashed, _hashed_imbalance(load, slots)),
        JoinWay("whole", routed_time(whole_loads, load, width, cost), imbalance(whole_loads)),
        JoinWay(
            "split", routed_time(split.loads, load, width, split_cost), split.imbalance, split.copied_share
        ),
    )
    chosen, reason = _chosen(ways, split, spark_splits=spark_splits, empty=not load.total)
    return JoinChoice(kind, slots, width, ways, chosen, reason, whole, split)


def _chosen(
    ways: tuple[JoinWay, ...], split: SplitPlan, *, spark_splits: bool, empty: bool
) -> tuple[Way, str]:
    if empty:
        return "plain", "nothing was measured"
    if spark_splits:
        return "plain", "Spark's adaptive execution splits the partition of the heaviest key itself"
    plain, whole, by_split = (way.time for way in ways)
    figures = f"predicted times are {plain:.2f} as Spark does it, {whole:.2f} with whole keys"
    if not len(split.keys):
        ways, figures = ways[:2], f"{figures}; no key is worth splitting"
    else:
        figures = f"{figures}, {by_split:.2f} with {len(split.keys)} split"
    # a tie goes to the simpler way
    best = min(ways, key=lambda way: way.time)
    return best.way, f"{figures} (1 is even work)"


def routed_time(loads: Floats, load: JoinLoad, width: int, cost: float) -> float:
    """How long slots with these loads take on `width` cores, if every row read takes `cost` times as long."""
    even = makespan(loads, width) * width / load.total if load.total else 1.0
    return even + (cost - 1) * load.read_share


def _hashed_imbalance(load: JoinLoad, slots: int) -> float:
    """The largest slot over the mean with random hashes: time if every slot has a core of its own."""
    return expected_time(load.hashed, slots, slots)
