"""What skew costs, and what each planner would do about it, in figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.core.chains.plan import ChainPlan
from unskew.core.hashing import key_iter
from unskew.core.histogram import Floats, Histogram
from unskew.core.html import Bar, columns, fragment, ranked
from unskew.core.loads import imbalance, lower_bound, slot_loads
from unskew.core.plan import make_table
from unskew.core.planners import PLANNERS, Planner, UnsuitablePlannerError, planner_named
from unskew.core.routing import check_slots
from unskew.core.scheduling import makespan
from unskew.core.splitting.join_choice import JoinChoice
from unskew.core.text import key_label


@dataclass(frozen=True)
class Verdict:
    """One planner on the measured load.

    `time` is the predicted length of the job in units of perfectly even work on the same cores: 1 is
    ideal, 2 is twice as long. `stragglers` counts slots above twice the mean.
    """

    planner: str
    imbalance: float
    time: float
    stragglers: int
    heavy_rows: int
    splits_keys: bool
    loads: Floats

    def __repr__(self) -> str:
        return (
            f"Verdict({self.planner}, imbalance {self.imbalance:.3f}, time {self.time:.3f}, "
            f"{self.stragglers} stragglers, {self.heavy_rows} heavy rows)"
        )


@dataclass(frozen=True)
class HeavyKey:
    """A heavy key: its value, its share of the load, and its load in units of a mean slot."""

    key: Any
    share: float
    slots: float

    def __repr__(self) -> str:
        return f"HeavyKey({self.key!r}, {self.share:.1%} of the load, {self.slots:.2f} slots)"


@dataclass(frozen=True)
class NextKey:
    """Two groupings, one after the other: the share of the records that stay on their slot between them.

    `hashed` is that share with hashing, `planned` with tables that put keys that occur together in one place.
    `imbalance` and `bound` are those of the two operators under these tables, `pairs` the most frequent pairs with
    their share of the records.
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
        counted = plan.pairs[0]
        pairs = tuple((a, b, count / (counted.total or 1.0)) for a, b, count in counted.top(top))
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
            return f"Grouped by {name} next, no more records stay in place than with hashing: the keys are not related."
        return (
            f"Grouped by {name} next, {self.planned:.0%} of the records stay where they are with thenBy, "
            f"{self.hashed:.0%} with hashing."
        )

    def __repr__(self) -> str:
        return f"NextKey({', '.join(self.key)}: {self.planned:.1%} stay with thenBy, {self.hashed:.1%} with hashing)"


@dataclass(frozen=True)
class Diagnosis:
    """How skewed a key is, what that costs with N slots, and what can be done about it."""

    histogram: Histogram
    slots: int
    cores: int
    bound: float
    verdicts: tuple[Verdict, ...]
    heavy: tuple[HeavyKey, ...]
    advice: str
    then: NextKey | None = None
    join: JoinChoice | None = None

    def verdict(self, planner: str) -> Verdict:
        """The verdict on one planner."""
        for verdict in self.verdicts:
            if verdict.planner == planner:
                return verdict
        judged = ", ".join(verdict.planner for verdict in self.verdicts)
        raise ValueError(f"planner {planner!r} was not judged here; these were: {judged}")

    @property
    def speedup(self) -> float:
        """How many times as fast the job is with `auto` as with hashing, if its time follows the load."""
        if not self.histogram.total:
            return 1.0
        return self.verdict("hash").time / self.verdict("auto").time

    def __repr__(self) -> str:
        imbalances = [
            f"{v.planner} {v.imbalance:.3f}" for v in self.verdicts if v.planner in ("hash", "auto")
        ]
        return (
            f"Diagnosis({', '.join(self.histogram.key_names) or 'key'}, {self.slots} slots on {self.cores} cores, "
            f"imbalance {', '.join(imbalances)}, bound {self.bound:.3f})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the advice, the slots as hashing fills them, and the heaviest keys."""
        hashed, ours = self.verdict("hash"), self.verdict("auto")
        facts = [
            ("advice", self.advice),
            (
                "fullest slot over the mean",
                f"hash {hashed.imbalance:.2f}, unskew {ours.imbalance:.2f}, at least {self.bound:.2f}",
            ),
            ("predicted speedup", f"{self.speedup:.2f} ×"),
        ]
        pictures = [
            columns(
                f"Load of every slot, {name}", verdict.loads.tolist(), float(verdict.loads.mean()), "the mean"
            )
            for name, verdict in (("hashed as Spark does", hashed), ("placed by unskew", ours))
        ]
        top = self.heavy[:10]
        longest = max((heavy.share for heavy in top), default=1.0) or 1.0
        bars = [Bar(key_label(heavy.key), heavy.share / longest, f"{heavy.share:.1%}") for heavy in top]
        name = ", ".join(self.histogram.key_names) or "key"
        title = f"Diagnosis of {name}: {self.slots} slots on {self.cores} cores"
        return fragment(title, facts, *pictures, ranked("Heaviest keys, share of the load", bars))

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
            "join": None if self.join is None else self.join.to_dict(),
        }


def diagnose(
    histogram: Histogram,
    slots: int,
    *,
    cores: int | None = None,
    planners: Iterable[str] | None = None,
    progress: Callable[[str], None] = lambda _: None,
    top: int = 20,
) -> Diagnosis:
    """Judge the measured load with N slots on `cores` cores (default: one per slot) under each planner.

    `planners` are names; by default, all planners that declare themselves `compared`. `hash` and `auto` are always
    added. A planner is left out if it cannot serve this N with these buckets, if it would take minutes for it, or
    if it needs the load of several windows.

    >>> diagnose(Histogram.from_counts({"a": 6, "b": 2, "c": 2}, buckets=16), 2)
    Diagnosis(key, 2 slots on 2 cores, imbalance hash 1.600, auto 1.200, bound 1.200)
    """
    check_cores(cores)
    check_slots(slots, histogram.buckets)
    width = min(cores or slots, slots)
    if planners is None:
        planners = [name for name, declared in PLANNERS.items() if declared.compared]
    # all names are looked up first: a misspelt one is refused before any planner runs
    tried = [planner_named(name) for name in dict.fromkeys(["hash", *planners, "auto"])]
    verdicts = []
    for candidate in tried:
        if candidate.uses_windows or slots > (candidate.max_slots or slots):
            continue
        progress(candidate.name)
        try:
            verdicts.append(_judged(candidate, histogram, slots, width))
        except UnsuitablePlannerError:
            continue
    bound = lower_bound(histogram, slots)
    total = histogram.total or 1.0
    heavy = tuple(
        HeavyKey(key, weight / total, weight / total * slots)
        for key, weight in zip(
            key_iter(histogram.keys[:top]), histogram.tracked.weights[:top].tolist(), strict=True
        )
    )
    diagnosis = Diagnosis(histogram, slots, width, bound, tuple(verdicts), heavy, advice="")
    return replace(diagnosis, advice=_advice(diagnosis))


def _judged(candidate: Planner, histogram: Histogram, slots: int, width: int) -> Verdict:
    """The verdict on one planner when `width` slots run at once."""
    table = make_table(candidate.name, histogram, slots, **candidate.context_options(cores=width))
    loads = slot_loads(table, histogram)
    return Verdict(
        planner=candidate.name,
        imbalance=imbalance(loads),
        time=makespan(loads, width) / max(loads.sum() / width, np.finfo(float).tiny),
        stragglers=int(np.count_nonzero(loads > 2 * loads.mean())),
        heavy_rows=len(table.hashes),
        splits_keys=candidate.splits,
        loads=loads,
    )


def check_cores(cores: int | None) -> None:
    """Refuse a number of cores that cannot run anything."""
    if cores is not None and cores < 1:
        raise ValueError(f"cores is at least 1, not {cores}")


def _advice(diagnosis: Diagnosis) -> str:
    if not diagnosis.histogram.total:
        return "Nothing was measured: the data is empty."
    by_hash, best = diagnosis.verdict("hash"), diagnosis.verdict("auto")
    gain, bound = diagnosis.speedup, diagnosis.bound
    if gain < 1.05 and bound > 1.05:
        text = (
            "Hash partitioning is nearly as good as any table that keeps keys whole: the gain is below 5 %."
        )
    elif gain < 1.05:
        text = "Hash partitioning is fine here: a better table would gain less than 5 %."
    else:
        text = (
            f"Hash partitioning makes the fullest slot {by_hash.imbalance:.2f} times the mean; unskew makes it "
            f"{best.imbalance:.2f}, so a job whose time follows the load is {gain:.2f} × as fast."
        )
    if bound > 1.05:
        heaviest = diagnosis.heavy[0]
        text += (
            f" One key alone is {heaviest.share:.1%} of the load, {heaviest.slots:.1f} slots' worth: it bounds the job "
            f"at {bound:.2f} unless the operator can merge partial results (merge=) or fewer slots are used."
        )
        if heaviest.key is None or (isinstance(heaviest.key, tuple) and None in heaviest.key):
            text += (
                " That key is null, which matches nothing: in an outer join set "
                "spark.sql.shuffle.spreadNullJoinKeys.enabled=true (Spark 4.3) or use unskew.join, which spreads it."
            )
    return f"{text} {_next_step(diagnosis)}"


def _next_step(diagnosis: Diagnosis) -> str:
    """What to do now: a line to paste, or nothing."""
    names = ", ".join(map(repr, diagnosis.histogram.key_names)) or '"key"'
    if diagnosis.speedup >= 1.05:
        return f"Next: unskew.groupBy(df, {names}) in place of df.groupBy({names})."
    if diagnosis.bound > 1.05:
        return (
            f"Next: if partial results can be merged, unskew.groupBy(df, {names}).applyInPandas(f, schema, merge=g); "
            f"in a join, unskew.join(df, other, {names}) splits this key."
        )
    return "Next: nothing, plain Spark is enough here."


def _plain(key: Any) -> Any:
    if isinstance(key, tuple):
        return [_plain(part) for part in key]
    if isinstance(key, float) and not math.isfinite(key):
        # JSON has no NaN
        return str(key)
    return key if isinstance(key, str | int | float | bool | None) else str(key)
