"""A bounded sample of the keys of a DataFrame, in one job, whatever its size.

The size of a DataFrame is not known before it is read, so every partition is thinned as it goes: its first `quota`
rows are taken, and row i after them with probability quota / i. A row stands for 1 / probability rows, so every sum
over the sample is an unbiased estimate of the sum over all rows (Horvitz and Thompson, 1952). Partition p gets the
quota budget / (p + 1). So the sample grows with the logarithm of the number of rows and of partitions, and it is worth
about 4 · budget rows drawn evenly: the variance of a share f is f / (4 · budget), however many rows there are. The
driver gets the keys of the sampled rows and nothing else of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.core.hashing import Hashes, buckets_of
from unskew.core.histogram import Floats, Histogram, Measures, sum_by
from unskew.spark.few_files import NAME, SIZE, FewFiles
from unskew.spark.keys import LOTS, KeyColumns, column, free_name
from unskew.spark.sql_terms import Term, as_column, at_most, call, first_of, named
from unskew.spark.versions.collecting import arrow_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

LEAST_BUDGET, MOST_BUDGET = 10_000, 50_000

PER_SLOT, _MOST_OF_PLAN = 500, 20_000
"""A budget of 500 per slot makes the load of a slot certain to about 2 %. Of many slots fewer rows will do, since what
chance makes of light keys is not balanced anyway (`_of_buckets`), and the driver has to wait for every row."""

LEAST_OF_GROUPS = 2_500
"""The least budget of a plan for one input. Joins multiply two estimates, and windows cut keys at quantiles: they need
the `LEAST_BUDGET`. A function on groups may be short, and four times the rows take 40 ms more."""

_LEAST_QUOTA = 16
"""Rows of a partition that are always taken, so that no partition goes unnoticed."""

_ROW_BITS = (1 << 33) - 1
"""In the number that Spark gives a record these bits count the rows of a partition, the others the partitions."""

_CERTAIN = 8
"""Sampled rows from which on a key is tracked: chance makes them differ from what it has by a third. Keys drawn once or
twice are no heavier than those that were not drawn, but each stands for all of these."""

_LARGE = 0.001
"""The share of the load from which on a key is tracked however few of its rows were drawn: they may be heavy rows."""

_LITTLE = 16 << 20
"""Bytes that take a tenth of a second to read: asking Spark for the files would take as long."""

_LONGEST = 256
"""Bytes of a key that a report can show. Longer keys are known by their hash, which is all that a plan needs."""

_HEAVY = 1024
"""Keys tracked one by one if only a sample was read: about as many as a table will have rows."""


@dataclass(frozen=True)
class KeySample:
    """Sampled records: the hash and value of each of their keys, the load, and how many records each stands for."""

    hashes: list[Hashes]
    values: list[pa.Array]
    load: Floats
    stands_for: Floats
    more: pa.Table | None = None
    """Further columns of the sampled records, if any were asked for."""

    @property
    def share(self) -> float:
        """The share of the records that would tell as much if drawn evenly; 1 if all were read."""
        every = float(self.stands_for.sum())
        return every / float(np.square(self.stands_for).sum()) if every else 1.0


def budget_for(slots: int, least: int = LEAST_BUDGET) -> int:
    """How many rows to ask for, so that a plan for that many slots can be trusted."""
    return min(max(least, PER_SLOT * slots), _MOST_OF_PLAN)


def measured_columns(df: DataFrame, keys: KeyColumns, weight: str | None) -> DataFrame:
    """The columns of the rows that measuring reads, to judge what it would cost."""
    parts = [expr.alias(f"k{i}") for i, expr in enumerate(keys.exprs)]
    return df.select(*parts, *([column(weight)] if weight else []))


def sample_keys(
    df: DataFrame,
    keys: Sequence[KeyColumns],
    weight: str | None = None,
    budget: int = LEAST_BUDGET,
    more: Sequence[Column] = (),
) -> KeySample:
    """A sample of the records by one or several keys, in one Spark job; the rows are drawn in the JVM.

    `more` are columns that are sampled as well.
    """
    rows = arrow_table(_thinned(df, keys, weight, budget, more))
    sample = _sample_in(rows, keys, weight, budget)
    return replace(sample, more=rows.select([f"m{i}" for i in range(len(more))])) if more else sample


def sample_inputs(
    inputs: Sequence[tuple[DataFrame, KeyColumns, str | None]],
    budget: int = LEAST_BUDGET,
    size: float = math.inf,
) -> list[KeySample]:
    """A sample of each input by its key, all in one Spark job; the keys are of one type, and a weight may be None.

    Of a table of many files only a few are read. Where these turn out not to stand for all, a second job reads them.
    `size` is that of all inputs in bytes, as far as it is known: less than `_LITTLE` is read whole.
    """
    # the load of a record may differ between files although its key does not
    few = [FewFiles.of(df, budget) if weight is None and size > _LITTLE else None for df, _, weight in inputs]
    samples = _samples_of(inputs, few, budget)
    again = [i for i, sample in enumerate(samples) if sample is None]
    more = _samples_of([inputs[i] for i in again], [None] * len(again), budget) if again else []
    found = dict(zip(again, more, strict=True))
    return [sample for i, each in enumerate(samples) if (sample := found.get(i, each)) is not None]


def _samples_of(
    inputs: Sequence[tuple[DataFrame, KeyColumns, str | None]], few: Sequence[FewFiles | None], budget: int
) -> list[KeySample | None]:
    """A sample of each input, in one Spark job; None where the few files that were read do not stand for all."""
    thinned = [
        _thinned(df, [keys], weight, budget, files=files)
        for (df, keys, weight), files in zip(inputs, few, strict=True)
    ]
    if len(thinned) > 1:
        thinned = [rows.withColumn("input", F.lit(i)) for i, rows in enumerate(thinned)]
    rows = arrow_table(reduce(partial(DataFrame.unionByName, allowMissingColumns=True), thinned))
    parts = [
        rows if len(inputs) == 1 else rows.filter(pc.equal(rows["input"], i)) for i in range(len(inputs))
    ]
    return [
        _sample_in(part, [keys], weight, budget) if files is None else _of_files(part, keys, budget, files)
        for part, (_, keys, weight), files in zip(parts, inputs, few, strict=True)
    ]


def _of_files(rows: pa.Table, keys: KeyColumns, budget: int, few: FewFiles) -> KeySample | None:
    """The sample of an input of which a few files were read; None if they do not stand for all."""
    sample = _sample_in(rows, [keys], None, budget)
    files, sizes = rows["file"].to_numpy(), rows["size"].to_numpy()
    if not few.trusted(files, sample.hashes[0], sample.stands_for, budget):
        return None
    return replace(sample, stands_for=sample.stands_for * few.scale(files, sizes))


def _thinned(
    df: DataFrame,
    keys: Sequence[KeyColumns],
    weight: str | None,
    budget: int,
    more: Sequence[Column] = (),
    files: FewFiles | None = None,
) -> DataFrame:
    """The sampled records: their number, the hash and value of every key, and their load if there is a weight.

    Of some files only, each with its file, if these are given.
    """
    number, file, size = (f"`{free_name(name, df.columns)}`" for name in ("__number", "__file", "__size"))
    row = f"({number} & {_ROW_BITS}) + 1"
    quota = f"greatest({_LEAST_QUOTA}D, {budget}D / (shiftright({number}, 33) + 1))"
    added = [f"monotonically_increasing_id() as {number}"]
    columns: list[Term] = [f"{number} as number"]
    if files is not None:
        df = files.rows(df)
        # at once, so that Spark reads no more of `_metadata`
        added += [f"{NAME} as {file}", f"{SIZE} as {size}"]
        columns += [f"{file} as file", f"{size} as size"]
    numbered = df.selectExpr("*", *added)
    drawn = numbered.where(f"{row} <= {quota} or {LOTS} * ({row}) < {quota}")
    if weight is not None:
        columns.append(F.coalesce(column(weight).cast("double"), F.lit(0.0)).alias("load"))
    for i, key in enumerate(keys):
        columns += [named(key.hash_term(), f"h{i}"), named(_value(key), f"k{i}")]
    return drawn.select(*map(as_column, columns), *(each.alias(f"m{i}") for i, each in enumerate(more)))


def _stand_for(numbers: NDArray[np.int64], budget: int) -> Floats:
    """How many records each sampled one stands for, by its number."""
    quota = np.maximum(_LEAST_QUOTA, budget / ((numbers >> 33) + 1))
    return np.maximum(1.0, ((numbers & _ROW_BITS) + 1) / quota)


def check_loads(loads: Floats, weight: str | None) -> None:
    """Refuse a weight column that has a negative value."""
    if len(loads) and not loads.min() >= 0:
        raise ValueError(
            f"weight column {weight!r} has the value {loads.min()}: a weight is a load, 0 or more; use abs() or "
            "another column"
        )


def _sample_in(rows: pa.Table, keys: Sequence[KeyColumns], weight: str | None, budget: int) -> KeySample:
    """The sample from its records."""
    loads = np.ones(len(rows)) if weight is None else rows["load"].to_numpy()
    check_loads(loads, weight)
    return KeySample(
        [rows[f"h{i}"].to_numpy() for i in range(len(keys))],
        [key_array(rows[f"k{i}"].combine_chunks(), key) for i, key in enumerate(keys)],
        loads,
        _stand_for(rows["number"].to_numpy(), budget),
    )


def histogram_of_sample(
    sample: KeySample, which: int, keys: KeyColumns, buckets: int, tracked: int
) -> Histogram:
    """The histogram of one key of a sample, scaled up to all records."""
    hashes, first, group = np.unique(sample.hashes[which], return_index=True, return_inverse=True)
    group = group.reshape(-1)
    counts = sum_by(group, sample.stands_for, len(hashes))
    loads = sum_by(group, sample.stands_for * sample.load, len(hashes))
    share = sample.share
    seen = np.bincount(group, minlength=len(hashes))
    heavy = np.argsort(-loads, kind="stable")[:tracked]
    if share < 1.0:
        heavy = heavy[:_HEAVY]
        heavy = heavy[(seen[heavy] >= _CERTAIN) | (loads[heavy] > _LARGE * loads.sum())]
    light = np.ones(len(hashes), np.bool_)
    light[heavy] = False
    homes = buckets_of(hashes[light], buckets)
    keys_for = _distinct(seen[light], float(counts[light].sum()), share)
    distinct = _of_buckets(homes, keys_for, keys_for, buckets)
    of_light = light[group]
    homes_of_rows = buckets_of(sample.hashes[which][of_light], buckets)
    weights = sample.stands_for[of_light], (sample.stands_for * sample.load)[of_light]
    rest_counts, rest_loads = (
        _of_buckets(homes_of_rows, each, sample.stands_for[of_light], buckets) for each in weights
    )
    histogram = Histogram(
        sample.values[which].take(pa.array(first[heavy])),
        hashes[heavy],
        Measures.of(counts[heavy], loads[heavy]),
        Measures(rest_counts, rest_loads, rest_counts),
        distinct,
        sampled=share,
        key_names=keys.names,
    )
    return histogram.trimmed(histogram.capacity)


def _of_buckets(homes: NDArray[np.int64], figures: Floats, stands_for: Floats, buckets: int) -> Floats:
    """The sum of what was sampled by bucket, each sum moved towards the mean by what is chance of the sample.

    Buckets differ in truth, and because few rows or keys of each were drawn. That second part of their variance is
    known: one that stands for s adds (s - 1) / s times the square of its figure. The rest is the share of a
    difference that is believed (Efron and Morris, 1973), so that a plan does not balance noise: less of it in a bucket
    with much load, since its noise grows with its load. The total stays the same.
    """
    sums = sum_by(homes, figures, buckets)
    mean, variance = float(sums.mean()), float(sums.var())
    noise = float(figures @ (figures * (1.0 - 1.0 / stands_for))) / buckets
    if not noise:
        return sums
    true = variance - noise
    if true <= 0.0:
        return np.full(buckets, mean)
    believed = true / variance
    rough = mean + believed * (sums - mean)
    believed_each = true / (true + noise * np.maximum(rough, 0.0) / mean)
    better = mean + believed_each * (sums - mean)
    return np.asarray(better * (sums.sum() / better.sum()))


def key_array(structs: pa.StructArray, keys: KeyColumns) -> pa.Array:
    """The keys from structs of their columns."""
    columns = structs.flatten()
    if len(keys.names) == 1:
        return columns[0].cast(keys.type)
    names = [part.name for part in keys.type]
    return pa.StructArray.from_arrays(columns, names=names).cast(keys.type)


def _value(keys: KeyColumns) -> Term:
    """The key columns, under names of our own since the user's may be ambiguous; null if too long to collect."""
    parts = keys.value_terms()
    value = call("struct", *(named(part, f"p{i}") for i, part in enumerate(parts)))
    texts = [part for part, kind in zip(parts, keys.types(), strict=True) if _may_be_long(kind)]
    if not texts:
        return value
    lengths = [call("coalesce", call("octet_length", part), "0") for part in texts]
    return first_of([(at_most(lengths, _LONGEST), value)], "null")


def _may_be_long(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _distinct(seen: NDArray[np.int64], records: float, share: float) -> Floats:
    """How many keys each sampled key stands for, if these keys have so many records in all.

    One seen several times stands for itself. Those seen once stand for the others as well, whose number follows from
    how many were seen once and twice (Chao, Scandinavian Journal of Statistics 1984): f1² / 2 f2, if all keys have
    about as many records; else there are more. Since no record is drawn twice, it is that times 1 - keys / records.
    """
    once, twice = int((seen == 1).sum()), int((seen == 2).sum())
    if share >= 1.0 or not once:
        return np.ones(len(seen))
    unseen = once * (once - 1) / (2 * (twice + 1))
    every = (len(seen) + unseen) / (1.0 + unseen / records)
    return np.where(seen == 1, max(1.0, (every - len(seen) + once) / once), 1.0)
