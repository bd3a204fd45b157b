"""The hot keys of a plan placed by Spark's own operators: a number beside the key that steers Spark's hash.

Spark sends a row to partition pmod(Murmur3(columns), N) of the columns that it groups or joins by. With the column of
`salt` as the last of them, a heavy key of the plan lands on its slot; every other key has the salt 0 and is hashed. The
salt is a function of the key, so grouping or joining by key and salt is grouping or joining by key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from unskew.core.plan import Plan
from unskew.spark.keys import Key, Part, check_frame, key_columns
from unskew.spark.parallelism import first_partitions
from unskew.spark.slot_expression import fingerprint, int_list, number_of_hash, shortened
from unskew.spark.sql_terms import as_column, call, get
from unskew.spark.versions.placing import salt_for

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OFFSET = 1 << 31


def salt(plan: Plan, df: DataFrame, key: Key | None = None, *more: Part) -> Column:
    """A column that places the heavy keys of a plan in operators of Spark itself, of batch jobs and of streams.

    >>> df = spark.createDataFrame([("ann", 1), ("ann", 2), ("bob", 4)], "user string, n int")
    >>> partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    >>> plan = unskew.plan(unskew.measure(df, "user"), slots=partitions)
    >>> salted = df.withColumn("salt", unskew.salt(plan, df))
    >>> sums = salted.groupBy("user", "salt").sum("n").drop("salt")  # or join, dropDuplicates, SQL
    >>> sorted(map(tuple, sums.collect()))
    [('ann', 3), ('bob', 4)]

    Group or join by the key columns in the order of the plan, then the salt, then nothing else: Spark's shuffle sends
    each heavy key of the plan to the partition that is its slot. Every other key has the salt 0 and goes where Spark's
    hash sends it. In another order, or next to other columns, the result is the same but keys are not placed.

    The salt is never null and depends on the key and the plan alone, so results are those of the key alone. Both sides
    of a join take their salt from the same plan. A streaming query with state keeps the plan that it was started with
    as long as its checkpoint lives: under another plan a key may have another salt, and so state of its own.

    `df` is the frame that the column is for, a stream or not, and the key is that of the measured DataFrame unless it
    is named here. Refused before any job: a plan that splits keys, a key of another type, a collated key, and a plan
    whose slots are not the number of partitions of Spark's shuffles (`spark.sql.shuffle.partitions`).
    """
    _check_plan(plan)
    check_frame(df)
    keys = key_columns(df, plan.key_names(df) if key is None else key, *more)
    plan.check(keys.type)
    _check_slots(plan, df)
    table = plan.table
    if not len(table.hashes):
        return F.lit(0)
    key_hash = keys.hash_term()
    # Of a key that is not heavy the number is 0, there is no slot at -1, and without a slot the salt is 0.
    slot = get(int_list(table.heavy_slots), as_column(number_of_hash(table.hashes, key_hash)) - 1)
    number = salt_for(keys.columns(), as_column(slot), table.slots).cast("bigint") + _OFFSET
    shown = shortened(number, str(fingerprint(table)), call("bit_count", key_hash))
    return (as_column(shown) - _OFFSET).cast("int")


def _check_plan(plan: Plan) -> None:
    if not isinstance(plan, Plan):
        raise ValueError(
            f"plan is what unskew.plan or unskew.load returns, not a {type(plan).__name__}: "
            "unskew.plan(unskew.measure(df, key), slots)"
        )
    if plan.table.is_split:
        raise ValueError(
            f"the plan of planner {plan.planner!r} splits keys over several slots, and a key has one salt only: use a "
            "planner that keeps keys whole, such as auto"
        )


def _check_slots(plan: Plan, df: DataFrame) -> None:
    name, value = first_partitions(df.sparkSession, streaming=df.isStreaming)
    if value != str(plan.slots):
        raise ValueError(
            f"the plan is for {plan.slots} slots, but {name} is {value}, the number of partitions of Spark's shuffles: "
            f"set it to {plan.slots}, or make a plan with that number of slots"
        )
