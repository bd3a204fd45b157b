"""Operators in a row: grouped by one key, then by another, with keys that occur together placed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from unskew.core.chains.locality import check_options
from unskew.core.chains.metis import pymetis_module
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.plan import ChainPlan
from unskew.core.chains.tables import expected_locality
from unskew.core.histogram import DEFAULT_BUCKETS, Histogram
from unskew.core.plan import Plan
from unskew.core.routing import check_slots
from unskew.spark.groupby import Grouped
from unskew.spark.keys import Key, KeyColumns, free_name, key_columns, lots, names_of
from unskew.spark.measure import (
    AUTO_ROWS,
    AUTO_SHARE,
    Sample,
    check_sample,
    key_array,
    sampled,
    scaled,
    share_of,
)
from unskew.spark.options import Options, cores_of
from unskew.spark.sketches import MOST_BUCKETS, aggregates, histogram_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

CHANCE = 0.02
"""A share of the records that stays by chance: less than this above hashing is no correlation."""

PAIRS = 20_000
"""Pairs read back. Every key among them may become a row of a table, and tables travel with the query."""


def plan_chain(
    df: DataFrame,
    keys: Sequence[Key],
    *,
    slots: int | None = None,
    servers: int | None = None,
    previous: ChainPlan | None = None,
    sample: Sample = "auto",
    pairs: int = PAIRS,
    buckets: int = DEFAULT_BUCKETS,
    **options: Any,
) -> ChainPlan:
    """Plan tables for operators in a row, one key each, so that most records stay where they are between them.

    `df` has all the keys: the input, or the output of an earlier run. It is measured in two Spark jobs, without
    Python per row: the load of each key, and the `pairs` most frequent pairs of successive keys. `slots` is the
    number of slots of every operator (default: one a core).

    Spark runs a task where most of its input lies, so a slot of the second operator follows the slot of the first
    that sends it the most: by default slot i is planned to follow slot i. `servers` plans for that many
    machines with slots / servers slots each, slot i on machine i mod servers: more records stay, if Spark deals the
    tasks of a stage out in turns, as it does while the whole cluster is free.

    `previous` is the plan in force: keys move only where that pays. `options` are those of
    `unskew.core.chains.locality.plan_chain_tables`: imbalance, worth, target, seed.

    Half of the records are kept back to judge by: `expected` of the plan is the share of those that stay. Where that is
    no better than hashing, the pairs were chance, and the plan is one for balance alone.
    """
    columns = _checked(df, keys)
    check_sample(sample)
    check_options(**options)
    pymetis_module()
    slots = slots if slots is not None else cores_of(df) or 4
    check_slots(slots, buckets)
    if isinstance(pairs, bool) or not isinstance(pairs, int) or pairs < 1:
        raise ValueError(f"pairs is the number of pairs counted, a whole number from 1, not {pairs!r}")
    if buckets > MOST_BUCKETS:
        raise ValueError(f"a chain is measured with at most {MOST_BUCKETS} buckets, not {buckets}")
    if previous is not None and len(previous.tables) != len(columns):
        raise ValueError(
            f"previous has tables for {len(previous.tables)} operators, but there are {len(columns)}"
        )
    servers = slots if servers is None else servers
    if isinstance(servers, bool) or not isinstance(servers, int) or servers < 1 or slots % servers:
        raise ValueError(f"servers is a number that divides the {slots} slots evenly, not {servers!r}")
    histograms, planned, kept_back = measure_chain(df, columns, sample=sample, pairs=pairs, buckets=buckets)
    layout = [[slot % servers for slot in range(slots)]] * len(columns)
    make = partial(
        ChainPlan.make, histograms, servers=servers, previous=previous, server_of_slot=layout, **options
    )
    trial = make(pairs=planned)
    expected = expected_locality(trial.tables, kept_back, servers, layout)
    if expected < 1.0 / servers + CHANCE:
        return replace(make(pairs=[each.reset() for each in planned]), expected=expected)
    whole = [one.merge(other) for one, other in zip(planned, kept_back, strict=True)]
    return replace(make(pairs=whole), expected=expected)


def measure_chain(
    df: DataFrame,
    keys: Sequence[KeyColumns],
    *,
    sample: Sample,
    pairs: int,
    buckets: int,
) -> tuple[list[Histogram], list[PairHistogram], list[PairHistogram]]:
    """The load of every key, and the most frequent pairs of every two successive keys in either half of the records."""
    share = AUTO_SHARE if sample == "auto" else share_of(df, sample)
    looked = sampled(df, share)
    histograms = _histograms(looked, keys, buckets)
    if sample == "auto" and histograms[0].records < AUTO_ROWS:
        share, looked = 1.0, df
        histograms = _histograms(looked, keys, buckets)
    total = histograms[0].records / share
    halves = [_pairs(looked, a, b, pairs, share, total) for a, b in pairwise(keys)]
    return [scaled(h, share) for h in histograms], [one for one, _ in halves], [other for _, other in halves]


def _histograms(df: DataFrame, keys: Sequence[KeyColumns], buckets: int) -> list[Histogram]:
    """One histogram a key, all in one pass."""
    names: list[str] = []
    for _ in keys:
        names.append(free_name("__hash", df.columns, names))
    figures: list[Column] = []
    for key, name in zip(keys, names, strict=True):
        found = aggregates(key, name, buckets)
        figures.append(F.struct(*found).alias(name))
    hashed = df.withColumns({name: key.hash() for key, name in zip(keys, names, strict=True)})
    seen = hashed.agg(*figures).collect()[0]
    return [histogram_of(seen[name].asDict(), key, buckets) for key, name in zip(keys, names, strict=True)]


def _pairs(
    df: DataFrame, a: KeyColumns, b: KeyColumns, most: int, share: float, total: float
) -> tuple[PairHistogram, PairHistogram]:
    """The most frequent pairs of a sample in either half of its records, counted by Spark's own aggregation.

    Records of pairs that are not among them are taken to be as many in either half.
    """
    named = {
        side: [part.alias(f"{side}{i}") for i, part in enumerate(key.columns())]
        for side, key in (("a", a), ("b", b))
    }
    parts = {side: [f"{side}{i}" for i in range(len(columns))] for side, columns in named.items()}
    half = free_name("__half", df.columns)
    by_pair = (
        df.withColumn(half, F.floor(2 * lots()))
        .groupBy(*named["a"], *named["b"])
        .agg(F.sum(half).cast("double").alias("one"), F.count(F.lit(1)).cast("double").alias("both"))
    )
    heaviest = (
        by_pair.select("one", "both", *(F.struct(*parts[side]).alias(side) for side in "ab"))
        .withColumns(
            {f"hash_{side}": F.xxhash64(*(f"{side}.{part}" for part in parts[side])) for side in "ab"}
        )
        .orderBy(F.col("both").desc(), "hash_a", "hash_b")
        .limit(most)
        .toArrow()
    )
    keys = [key_array(heaviest[side].combine_chunks(), key) for side, key in (("a", a), ("b", b))]
    hashes = (heaviest["hash_a"].to_numpy(), heaviest["hash_b"].to_numpy())
    one, both = heaviest["one"].to_numpy(), heaviest["both"].to_numpy()
    others = max(0.0, total - float(both.sum()) / share) / 2
    first, second = (
        PairHistogram.from_arrays(keys[0], keys[1], counts / share, hashes=hashes, capacity=most)
        for counts in (one, both - one)
    )
    return replace(first, total=first.total + others), replace(second, total=second.total + others)


def chained(
    df: DataFrame,
    keys: Sequence[Key],
    options: Options,
    servers: int | None,
    plan: ChainPlan | str | Path | None,
) -> Chained:
    """The operators in a row; what does not fit is refused before a Spark job runs."""
    if options.plan is not None:
        raise ValueError(
            "a chain has a table for each of its operators: give their plan to thenBy, not to groupBy"
        )
    if options.planner not in ("auto", "locality"):
        raise ValueError(f"a chain is planned by 'locality', not by {options.planner!r}: leave planner out")
    if options.weight is not None:
        raise ValueError("a chain counts records: leave weight out")
    if isinstance(plan, str | Path):
        plan = ChainPlan.load(plan)
    names = tuple(names_of(key) for key in keys)
    if plan is None:
        _checked(df, names)
        return Chained(df, names, options, servers)
    if not isinstance(plan, ChainPlan):
        raise ValueError(
            f"plan is what unskew.plan_chain returns or the path of a saved one, not a {type(plan).__name__}"
        )
    if servers is not None:
        raise ValueError("the plan knows its servers: leave servers out")
    if len(plan.tables) < len(names):
        raise ValueError(f"the plan has tables for {len(plan.tables)} operators, but there are {len(names)}")
    _plans(plan)[0].check(key_columns(df, names[0]).type, options.slots)
    return Chained(df, names, options, servers, plan)


def _checked(df: DataFrame, keys: Sequence[Key]) -> list[KeyColumns]:
    """The columns of every key, which `df` must have."""
    if len(keys) < 2:
        raise ValueError("a chain has two operators or more: name a key for each")
    columns = [key_columns(df, keys[0])]
    for key in keys[1:]:
        try:
            columns.append(key_columns(df, key))
        except ValueError as error:
            raise ValueError(
                f"a chain is measured on its input, which needs the keys of all its operators: {error}. Where only the "
                "first operator makes the key, plan on the output of an earlier run, "
                "plan = unskew.plan_chain(output, keys), and say thenBy(…, plan=plan)"
            ) from error
    return columns


def _plans(plan: ChainPlan) -> tuple[Plan, ...]:
    return tuple(Plan(p.table, p.histogram, p.planner, p.previous) for p in plan.plans)


@dataclass(frozen=True)
class Chained:
    """Rows grouped by a key, whose results are then grouped by others: what `thenBy` returns.

    `applyInPandas` and `applyInArrow` are those of the first operator; what they return has those of the next, and
    the last one gives a DataFrame.
    """

    df: DataFrame
    keys: tuple[tuple[str, ...], ...]
    options: Options
    servers: int | None = None
    given: ChainPlan | None = None

    def thenBy(self, *key: str) -> Chained:
        """One more operator after these."""
        return chained(self.df, (*self.keys, key), self.options, self.servers, self.given)

    @cached_property
    def plan(self) -> ChainPlan:
        """The tables of all operators: those given, else measures the keys and plans."""
        if self.given is not None:
            return self.given
        asked = self.options
        return plan_chain(
            self.df,
            self.keys,
            slots=asked.slots,
            servers=self.servers,
            sample=asked.sample,
            buckets=asked.buckets,
        )

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> Grouped | Hops:
        """Map every group of the first key with `func`; returns the rows grouped by the next key."""
        return self._hops().applyInPandas(func, schema)

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> Grouped | Hops:
        """Map every group of the first key with `func`; returns the rows grouped by the next key."""
        return self._hops().applyInArrow(func, schema)

    def _hops(self) -> Hops:
        return Hops(self.df, self.keys, _plans(self.plan))


@dataclass(frozen=True)
class Hops:
    """Rows and the operators that they still have before them, each with its plan."""

    df: DataFrame
    keys: tuple[tuple[str, ...], ...]
    plans: tuple[Plan, ...]

    def applyInPandas(self, func: Callable[..., Any], schema: StructType | str) -> Grouped | Hops:
        """Map every group of the next key with `func`."""
        return self._after(self._grouped().applyInPandas(func, schema))

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> Grouped | Hops:
        """Map every group of the next key with `func`."""
        return self._after(self._grouped().applyInArrow(func, schema))

    def _grouped(self) -> Grouped:
        options = Options(plan=self.plans[0])
        keys = key_columns(self.df, self.keys[0])
        options.check(self.df, keys)
        return Grouped(self.df, keys, options)

    def _after(self, out: DataFrame) -> Grouped | Hops:
        rest = Hops(out, self.keys[1:], self.plans[1:])
        return rest if len(rest.keys) > 1 else rest._grouped()
