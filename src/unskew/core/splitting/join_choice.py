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
    spark_splits: bool = False,
) -> JoinChoice:
    """The way that takes the least time on `cores` cores.

    Plain Spark hashes to `partitions` partitions. Its rivals take `cost` and `split_cost` times as long as their
    tasks, since they measure and route. `spark_splits` says that Spark splits the heaviest key itself.
    """
    slots, width = whole.slots, min(cores, whole.slots)
    everything = load.histogram.total + load.spread
    # both in units of even work on `width` cores
    hashed = expected_time(load.hashed, partitions, cores) * width / min(cores, partitions)
    evenly = load.spread / slots
    ways = (
        JoinWay("plain", hashed, _hashed_imbalance(load, slots)),
        JoinWay(
            "whole", cost * _time(whole.loads + evenly, width, everything), imbalance(whole.loads + evenly)
        ),
        JoinWay(
            "split", split_cost * _time(split.loads, width, everything), split.imbalance, split.copied_share
        ),
    )
    chosen, reason = _chosen(ways, split, spark_splits=spark_splits, empty=not everything)
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


def _time(loads: Floats, width: int, everything: float) -> float:
    return makespan(loads, width) * width / everything if everything else 1.0


def _hashed_imbalance(load: JoinLoad, slots: int) -> float:
    """The largest slot over the mean with random hashes: time if every slot has a core of its own."""
    return expected_time(load.hashed, slots, slots)
