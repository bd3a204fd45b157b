"""What skew costs, and what each planner would do about it, in figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.core.chains.plan import ChainPlan
from unskew.core.hashing import key_iter
from unskew.core.histogram import Floats, Histogram
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners import NAMES, SPLITTING, planner
from unskew.core.routing import check_slots
from unskew.core.scheduling import makespan

COMPARED = tuple(name for name in NAMES if name not in ("single", "clb", "modulo", "locality"))
"""What a diagnosis compares: all planners but the worst case, the one that needs several windows, and twins of
hash and keel."""

_FOR_CORES = ("keel", "auto")  # planners that know how many slots run at once

_MOST_SLOTS = {"redist": 256}  # its time grows with the square of its rows: 4 s here, a minute with 512 slots


@dataclass(frozen=True)
class Verdict:
    """One planner on the measured load.

    `time` is the predicted length of the job in units of perfectly even work on the same cores: 1 is
    ideal, 2 takes twice as long. `stragglers` counts slots above twice the mean.
    """

    planner: str
    imbalance: float
    time: float
    stragglers: int
    heavy_rows: int
    splits_keys: bool
    loads: Floats


@dataclass(frozen=True)
class HeavyKey:
    """A heavy key: its value, its share of the load, and its load in units of a mean slot."""

    key: Any
    share: float
    slots: float


@dataclass(frozen=True)
class NextKey:
    """Two keys in a row: the share of the records that stay on their slot between the two operators.

    With hashing, and with tables that put keys that occur together in one place. `imbalance` and `bound` are those of
    the two operators under these tables, `pairs` the most frequent pairs with their share of the records.
    """

    key: tuple[str, ...]
    hashed: float
    planned: float
    imbalance: tuple[float, ...]
    bound: tuple[float, ...]
    pairs: tuple[tuple[Any, Any, float], ...]

    @classmethod
    def of(cls, plan: ChainPlan, top: int = 10) -> NextKey:
        """What a plan for the two operators promises."""
        met = plan.pairs[0]
        pairs = tuple((a, b, count / (met.total or 1.0)) for a, b, count in met.top(top))
        names = plan.histograms[1].key_names
        planned = plan.locality if plan.expected is None else plan.expected
        return cls(names, plan.hash_locality, planned, plan.imbalance, plan.bound, pairs)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        pairs = [{"first": _plain(a), "then": _plain(b), "share": share} for a, b, share in self.pairs]
        return {**vars(self), "key": list(self.key), "pairs": pairs, "advice": self.advice}

    @property
    def advice(self) -> str:
        """The gain in one sentence."""
        name = ", ".join(self.key)
        if self.planned < self.hashed + 0.05:
            return (
                f"Grouped by {name} next, records stay as seldom as with hashing: the keys are not related."
            )
        return (
            f"Grouped by {name} next, {self.planned:.0%} of the records stay where they are with thenBy, "
            f"{self.hashed:.0%} with hashing."
        )


@dataclass(frozen=True)
class Diagnosis:
    """How skewed a key is, what that costs with N slots, and what can be done."""

    histogram: Histogram
    slots: int
    cores: int
    bound: float
    verdicts: tuple[Verdict, ...]
    heavy: tuple[HeavyKey, ...]
    advice: str
    then: NextKey | None = None

    def verdict(self, planner: str) -> Verdict:
        """The verdict on one planner."""
        return next(v for v in self.verdicts if v.planner == planner)

    @property
    def speedup(self) -> float:
        """How many times shorter the job gets with `auto` than with hashing, if its time follows the load."""
        if not self.histogram.total:
            return 1.0
        return self.verdict("hash").time / self.verdict("auto").time

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "records": self.histogram.records,
            "load": self.histogram.total,
            "distinct_keys": self.histogram.distinct,
            "sampled": self.histogram.sampled,
            "key": list(self.histogram.key_names),
            "slots": self.slots,
            "cores": self.cores,
            "bound": self.bound,
            "speedup": self.speedup,
            "advice": self.advice,
            "heavy": [{"key": _plain(h.key), "share": h.share, "slots": h.slots} for h in self.heavy],
            "planners": [{**vars(v), "loads": v.loads.tolist()} for v in self.verdicts],
            "then": None if self.then is None else self.then.to_dict(),
        }


def diagnose(
    histogram: Histogram,
    slots: int,
    *,
    cores: int | None = None,
    planners: Iterable[str] = COMPARED,
    progress: Callable[[str], None] = lambda _: None,
    top: int = 20,
) -> Diagnosis:
    """Judge the measured load with N slots on `cores` cores (default: one a slot) under each planner.

    A planner that cannot serve this N with these buckets, or would take minutes for it, is left out.

    >>> found = diagnose(Histogram.from_counts({"a": 6, "b": 2, "c": 2}, buckets=16), 2)
    >>> found.bound, found.verdict("auto").imbalance
    (1.2, 1.2)
    """
    check_cores(cores)
    check_slots(slots, histogram.buckets)
    width = min(cores or slots, slots)
    names = dict.fromkeys(["hash", *planners, "auto"])
    for name in names:
        planner(name)  # a name that is none must not be left out in silence
    verdicts = []
    for name in names:
        if slots > _MOST_SLOTS.get(name, slots):
            continue
        progress(name)
        try:
            options: dict[str, Any] = {"cores": width} if name in _FOR_CORES else {}
            table = make_table(name, histogram, slots, **options)
        except ValueError:
            continue  # not for this N: the default options of dkg and clb have their limits
        loads = slot_loads(table, histogram)
        verdicts.append(
            Verdict(
                name,
                imbalance(loads),
                makespan(loads, width) / max(loads.sum() / width, np.finfo(float).tiny),
                int(np.count_nonzero(loads > 2 * loads.mean())),
                len(table.hashes),
                name in SPLITTING,
                loads,
            )
        )
    bound = lower_bound(histogram, slots)
    total = histogram.total or 1.0
    heavy = tuple(
        HeavyKey(key, weight / total, weight / total * slots)
        for key, weight in zip(
            key_iter(histogram.keys[:top]), histogram.tracked.weights[:top].tolist(), strict=True
        )
    )
    found = Diagnosis(histogram, slots, width, bound, tuple(verdicts), heavy, "")
    return Diagnosis(histogram, slots, width, bound, tuple(verdicts), heavy, _advice(found))


def check_cores(cores: int | None) -> None:
    """Refuse a number of cores that can run nothing."""
    if cores is not None and cores < 1:
        raise ValueError(f"cores is at least 1, not {cores}")


def _advice(found: Diagnosis) -> str:
    if not found.histogram.total:
        return "Nothing was measured: the data is empty."
    by_hash, best = found.verdict("hash"), found.verdict("auto")
    gain = found.speedup
    if gain < 1.05 and found.bound > 1.05:
        text = (
            "Hash partitioning is nearly as good as any table that keeps keys whole: the gain is below 5 %."
        )
    elif gain < 1.05:
        text = "Hash partitioning is fine here: a better table would gain less than 5 %."
    else:
        text = (
            f"Hash partitioning makes the fullest slot {by_hash.imbalance:.2f} times the mean; unskew makes it "
            f"{best.imbalance:.2f}, so a job whose time follows the load takes {gain:.2f} times less time."
        )
    if found.bound > 1.05:
        heaviest = found.heavy[0]
        text += (
            f" One key alone is {heaviest.share:.1%} of the load, {heaviest.slots:.1f} slots' worth: it bounds the job "
            f"at {found.bound:.2f} unless the operator can merge partial results (merge=) or fewer slots are used."
        )
    return text


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return [_plain(part) for part in key]
    if isinstance(key, float) and not math.isfinite(key):
        return str(key)  # JSON has no NaN
    return key if isinstance(key, str | int | float | bool | None) else str(key)
