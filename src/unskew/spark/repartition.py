"""`repartition` for writing partitioned tables: hot values over several tasks, small ones together in one."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew.core.histogram import DEFAULT_BUCKETS
from unskew.core.routing import check_slots
from unskew.core.splitting.files import MOST_FILES, expected_rows, files_table
from unskew.spark.dealing import dealt_out
from unskew.spark.keys import KeyColumns, check_batch, column, free_name, key_columns, named_key_columns
from unskew.spark.measure import measure_for_planning
from unskew.spark.no_measure import SETTING, measuring_allowed, warn_once
from unskew.spark.parallelism import cores_of, default_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_TRACKED = 100_000
"""Values whose rows are read back one by one, heaviest first: only these can be split."""


def repartition(
    df: DataFrame,
    key: str | Sequence[str],
    *more: str,
    rows_per_file: int | None = None,
    slots: int | None = None,
) -> DataFrame:
    """The rows in partitions made for `df.write.partitionBy(key, *more)`; replaces `df.repartition(key, *more)`.

    Each task of the write makes one file for each value that it has rows of. A value with more than `rows_per_file`
    rows is spread over as many tasks as it needs so that no file has more; without `rows_per_file` a value is spread if
    it has more rows than an even share of the `slots` tasks. Any other value is one file. By default there is a task
    for each `rows_per_file` rows and at least one per core, or without `rows_per_file` as many as `unskew.groupBy` has
    slots. There are more tasks than `slots` if a value needs more files. The columns are those of `df`, and writing
    does not shuffle again.

    The rows of every value are counted first, by one job that combines before its shuffle and reads the key columns
    only. Which row of a large value goes where is as good as random, and planned so that a file exceeds the limit less
    than once in 10¹² files. For a limit without exception add `.option("maxRecordsPerFile", rows_per_file)` to the
    write.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> rows = spark.range(100).selectExpr("id", "id % 10 > 0 AS common")
    >>> files = unskew.repartition(rows, "common", rows_per_file=50)
    >>> files.write.partitionBy("common").mode("overwrite").parquet(folder)
    >>> spark.read.parquet(folder).count()
    100
    """
    check_batch(df)
    names = [part.name for part in named_key_columns(df, key, *more).fields]
    if rows_per_file is not None and (
        isinstance(rows_per_file, bool) or not isinstance(rows_per_file, int) or rows_per_file < 1
    ):
        raise ValueError(f"rows_per_file is a whole number of rows, 1 or more, not {rows_per_file!r}")
    if slots is not None:
        check_slots(slots, slots if isinstance(slots, int) else 1)
        if slots > MOST_FILES:
            raise ValueError(f"slots is the number of tasks, {MOST_FILES} at most, not {slots}")
    if not measuring_allowed(df):
        warn_once(
            "repartition",
            "unskew.repartition runs as DataFrame.repartition: measuring is off (unskew.no_measure or "
            f"{SETTING}=false)",
        )
        return df.repartition(*map(column, names))
    keys = _folders(df, names)
    histogram = measure_for_planning(df, keys, DEFAULT_BUCKETS, None, None, _TRACKED)
    if slots is None:
        slots = _slots_for(df.sparkSession, histogram.total, rows_per_file)
    table = files_table(histogram, slots, rows_per_file)
    return dealt_out(df, keys, table, free_name("__slot", df.columns))


def _slots_for(spark: SparkSession, rows: float, rows_per_file: int | None) -> int:
    """As many tasks as all rows make full files, so that a task of a large value is no longer than others."""
    if rows_per_file is None:
        return default_slots(spark)
    files = min(ceil(rows / expected_rows(rows_per_file)), MOST_FILES)
    return max(files, cores_of(spark) or default_slots(spark))


def _folders(df: DataFrame, names: Sequence[str]) -> KeyColumns:
    """The key by which Spark names folders: it writes an empty string where it writes null."""
    texts = {each.name for each in df.schema.fields if isinstance(each.dataType, T.StringType)}
    parts = [
        # not F.nullif: Spark 3.5 cannot resolve it here
        F.when(column(name) != F.lit(""), column(name)).alias(name) if name in texts else column(name)
        for name in names
    ]
    return key_columns(df, parts)
