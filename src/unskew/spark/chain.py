"""Plans for chained operators: grouped by one key, then by another, with keys that occur together placed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from unskew.core.chains.locality import check_options
from unskew.core.chains.metis import pymetis_module
from unskew.core.chains.pairs import PairHistogram
from unskew.core.chains.plan import ChainPlan
from unskew.core.chains.tables import expected_locality
from unskew.core.hashing import Hashes
from unskew.core.histogram import DEFAULT_BUCKETS, Floats, Histogram, sum_by
from unskew.core.routing import check_slots
from unskew.spark.keys import Key, KeyColumns, Part, check_batch, free_name, key_columns, lots
from unskew.spark.measure import TRACKED, Sample, check_sample, sampled, scaled, share_of
from unskew.spark.options import Options
from unskew.spark.parallelism import cores_of
from unskew.spark.sampling import KeySample, histogram_of_sample, key_array, sample_keys
from unskew.spark.sketches import MOST_BUCKETS, SketchedColumns, aggregates, histogram_of
from unskew.spark.versions.collecting import arrow_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHANCE = 0.02
"""Keys whose records stay together by less than this share above hashing are not correlated: it may be chance."""

_BUDGET = 100_000
"""Pairs of keys are many: a sample for them is twice as large as the largest for one key."""

PAIRS = 20_000
"""Pairs read back. Every key among them may become a row of a table, and tables are sent to the executors."""


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
    """Plan tables for chained operators, one key each, so that most records stay where they are between them.

    `df` has all the keys: it is the input, or the output of an earlier run. It is measured in one Spark job
    (or two if `sample` is not "auto"): the load of each key, and the `pairs` most frequent pairs of successive keys.
    `slots` is the number of slots of every operator (default: one per core).

    Spark runs a task where most of its input is, so a slot of the second operator follows the slot of the first
    that sends it the most: by default slot i is planned to follow slot i. `servers` plans for that many
    machines with slots / servers slots each, slot i on machine i mod servers. More records stay then, provided that
    Spark assigns the tasks of a stage to machines in turn, as it does while the whole cluster is free.

    `previous` is the plan in force: keys move only if that pays. `options` are those of
    `unskew.core.chains.locality.plan_chain_tables`: imbalance, worth, target, seed.

    Half of the records are held out: `expected` of the plan is the share of them that stays. If that is
    no better than hashing, the pairs were chance, and the plan is for balance alone.

    >>> posts = spark.range(1000).selectExpr("id % 4 AS region", "id % 4 * 10 + id % 3 AS hashtag")
    >>> plan = unskew.plan_chain(posts, ["region", "hashtag"], slots=2)
    >>> plan.expected > plan.hash_locality
    True
    """
    check_batch(df)
    columns = chain_columns(df, keys)
    check_sample(sample)
    check_options(**options)
    pymetis_module()
    slots = slots if slots is not None else cores_of(df.sparkSession) or 4
    check_slots(slots, buckets)
    if isinstance(pairs, bool) or not isinstance(pairs, int) or pairs < 1:
        raise ValueError(f"pairs is the number of pairs counted, a whole number from 1, not {pairs!r}")
    if buckets > MOST_BUCKETS:
        raise ValueError(f"a chain is measured with at most {MOST_BUCKETS} buckets, not {buckets}")
    if previous is not None and len(previous.tables) != len(columns):
        raise ValueError(
            f"previous has tables for {len(previous.tables)} operators, but there are {len(columns)}: "
            "pass a plan of the same keys"
        )
    servers = slots if servers is None else servers
    if isinstance(servers, bool) or not isinstance(servers, int) or servers < 1 or slots % servers:
        raise ValueError(f"servers is a number that divides the {slots} slots evenly, not {servers!r}")
    histograms, planned, held_out = measure_chain(df, columns, sample=sample, pairs=pairs, buckets=buckets)
    layout = [[slot % servers for slot in range(slots)]] * len(columns)
    make = partial(
        ChainPlan.make, histograms, servers=servers, previous=previous, server_of_slot=layout, **options
    )
    trial = make(pairs=planned)
    expected = expected_locality(trial.tables, held_out, servers, layout)
    if expected < 1.0 / servers + CHANCE:
        return replace(make(pairs=[half.reset() for half in planned]), expected=expected)
    whole = [half.merge(rest) for half, rest in zip(planned, held_out, strict=True)]
    return replace(make(pairs=whole), expected=expected)


def measure_chain(
    df: DataFrame,
    keys: Sequence[KeyColumns],
    *,
    sample: Sample,
    pairs: int,
    buckets: int,
) -> tuple[list[Histogram], list[PairHistogram], list[PairHistogram]]:
    """The load of every key, and the most frequent pairs of successive keys in each half of the records."""
    if sample == "auto":
        return _from_sample(sample_keys(df, keys, budget=_BUDGET), keys, pairs, buckets)
    share = share_of(df, sample)
    records = sampled(df, share)
    histograms = _histograms(records, keys, buckets)
    total = histograms[0].records / share
    halves = [_pairs(records, a, b, pairs, share, total) for a, b in pairwise(keys)]
    whole = [scaled(histogram, share) for histogram in histograms]
    return whole, [first for first, _ in halves], [second for _, second in halves]


def _from_sample(
    sample: KeySample, keys: Sequence[KeyColumns], most: int, buckets: int
) -> tuple[list[Histogram], list[PairHistogram], list[PairHistogram]]:
    """The same from sampled records, of which Spark needs one job."""
    histograms = [histogram_of_sample(sample, i, key, buckets, TRACKED) for i, key in enumerate(keys)]
    total = float(sample.stands_for.sum())
    in_first = np.where(np.random.default_rng(0).random(len(sample.stands_for)) < 0.5, sample.stands_for, 0.0)
    halves: list[tuple[PairHistogram, PairHistogram]] = []
    for i in range(len(keys) - 1):
        members = [np.unique(sample.hashes[j], return_inverse=True) for j in (i, i + 1)]
        codes = members[0][1].reshape(-1) * len(members[1][0]) + members[1][1].reshape(-1)
        _, first_row, pair = np.unique(codes, return_index=True, return_inverse=True)
        both = sum_by(pair.reshape(-1), sample.stands_for, len(first_row))
        first = sum_by(pair.reshape(-1), in_first, len(first_row))
        top = np.argsort(-both, kind="stable")[:most]
        rows = first_row[top]
        others = max(0.0, total - float(both[top].sum())) / 2
        halves.append(
            _halves(
                [sample.values[j].take(pa.array(rows)) for j in (i, i + 1)],
                (sample.hashes[i][rows], sample.hashes[i + 1][rows]),
                (first[top], both[top]),
                others,
                most,
            )
        )
    return histograms, [first for first, _ in halves], [second for _, second in halves]


def _halves(
    keys: Sequence[pa.Array],
    hashes: tuple[Hashes, Hashes],
    counts: tuple[Floats, Floats],
    others: float,
    most: int,
) -> tuple[PairHistogram, PairHistogram]:
    """The pairs of either half, from their counts in the first half and in both; `others` is in neither count."""
    in_first, in_both = counts
    first, second = (
        PairHistogram.from_arrays(keys[0], keys[1], half, hashes=hashes, capacity=most)
        for half in (in_first, in_both - in_first)
    )
    return replace(first, total=first.total + others), replace(second, total=second.total + others)


def _histograms(df: DataFrame, keys: Sequence[KeyColumns], buckets: int) -> list[Histogram]:
    """One histogram per key, all in one pass."""
    added: dict[str, Column] = {}
    structs = []
    for i, key in enumerate(keys):
        sketched = SketchedColumns.beside(df.sparkSession, df.columns, list(added))
        added |= sketched.of(key)
        structs.append(F.struct(*aggregates(sketched, buckets)).alias(str(i)))
    figures = df.withColumns(added).agg(*structs).collect()[0]
    return [histogram_of(figures[str(i)].asDict(), key, buckets) for i, key in enumerate(keys)]


def _pairs(
    df: DataFrame, a: KeyColumns, b: KeyColumns, most: int, share: float, total: float
) -> tuple[PairHistogram, PairHistogram]:
    """The most frequent pairs of a sample in either half of its records, counted by Spark's own aggregation.

    Both halves are taken to have the same number of records of all other pairs.
    """
    columns = {
        side: [part.alias(f"{side}{i}") for i, part in enumerate(key.values())]
        for side, key in (("a", a), ("b", b))
    }
    parts = {side: [f"{side}{i}" for i in range(len(of_side))] for side, of_side in columns.items()}
    half = free_name("__half", df.columns)
    by_pair = (
        df.withColumn(half, F.floor(2 * lots()))
        .groupBy(*columns["a"], *columns["b"])
        .agg(F.sum(half).cast("double").alias("first"), F.count(F.lit(1)).cast("double").alias("both"))
    )
    heaviest = arrow_table(
        by_pair.select("first", "both", *(F.struct(*parts[side]).alias(side) for side in "ab"))
        .withColumns(
            {f"hash_{side}": F.xxhash64(*(f"{side}.{part}" for part in parts[side])) for side in "ab"}
        )
        .orderBy(F.col("both").desc(), "hash_a", "hash_b")
        .limit(most)
    )
    keys = [key_array(heaviest[side].combine_chunks(), key) for side, key in (("a", a), ("b", b))]
    hashes = (heaviest["hash_a"].to_numpy(), heaviest["hash_b"].to_numpy())
    in_first, in_both = heaviest["first"].to_numpy() / share, heaviest["both"].to_numpy() / share
    others = max(0.0, total - float(in_both.sum())) / 2
    return _halves(keys, hashes, (in_first, in_both), others, most)


def check_chain(
    df: DataFrame,
    keys: Sequence[tuple[Part, ...]],
    options: Options,
    servers: int | None,
    plan: ChainPlan | None,
) -> None:
    """Refuse a chain that cannot be planned, or that the plan does not fit; no Spark job runs."""
    if options.plan is not None:
        raise ValueError(
            "a chain has a table for each of its operators: give their plan to thenBy, not to groupBy"
        )
    if options.planner not in ("auto", "locality"):
        raise ValueError(f"a chain is planned by 'locality', not by {options.planner!r}: leave planner out")
    if options.weight is not None:
        raise ValueError("a chain counts records: leave weight out")
    if plan is None:
        chain_columns(df, keys)
        return
    if servers is not None:
        raise ValueError("the plan already fixes the number of servers: leave servers out")
    if len(plan.tables) < len(keys):
        raise ValueError(
            f"the plan has tables for {len(plan.tables)} operators, but there are {len(keys)}: plan these keys"
        )
    plan.plans[0].check(key_columns(df, keys[0]).type, options.slots)


def chain_columns(df: DataFrame, keys: Sequence[Key]) -> list[KeyColumns]:
    """The columns of every key, which `df` must have."""
    if len(keys) < 2:
        raise ValueError("a chain has two operators or more: name a key for each")
    columns = [key_columns(df, keys[0])]
    for key in keys[1:]:
        try:
            columns.append(key_columns(df, key))
        except ValueError as error:
            raise ValueError(
                f"a chain is measured on its input, which needs the keys of all its operators: {error}. If only the "
                "first operator makes the key, plan on the output of an earlier run, "
                "plan = unskew.plan_chain(output, keys), and call thenBy(…, plan=plan)"
            ) from error
    return columns
