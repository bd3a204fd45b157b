"""The inputs of the everyday jobs: the same rows in every run, by hashing row numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.harm_functions import slowly

SHORT, LONG = 200_000, 4_000_000
"""Rows of an input at full size: for jobs of about a second, and of about ten seconds."""

USERS, FEWEST = 5_000, 60
"""Keys at full size, and rows and keys at the least."""

EVENT = "id bigint, user string, number bigint, day int, kind string, country string, v bigint, w int"


@dataclass
class Inputs:
    """Makes each input when it is first asked for and keeps it in `folder`; `scale` changes the number of rows."""

    spark: SparkSession
    folder: Path
    scale: float
    _made: dict[str, DataFrame] = field(default_factory=dict)

    # Events, by how the keys are distributed.

    @property
    def uniform(self) -> DataFrame:
        """About ten events per user."""
        return self._events("uniform", SHORT, self._uniform())

    @property
    def zipf(self) -> DataFrame:
        """The k-th user has 1/k as many events as the first, who has a tenth of all."""
        return self._events("zipf", SHORT, self._zipf())

    @property
    def half(self) -> DataFrame:
        """One user has half of all events."""
        return self._events("half", SHORT, self._hot(50, F.lit(7)))

    @property
    def most(self) -> DataFrame:
        """One user has nine of ten events."""
        return self._events("most", SHORT, self._hot(90, F.lit(7)))

    @property
    def nulls(self) -> DataFrame:
        """Nine of ten events have no user."""
        return self._events("nulls", SHORT, self._hot(90, F.lit(None)))

    @property
    def many_uniform(self) -> DataFrame:
        """`uniform` for a job of ten seconds."""
        return self._events("many_uniform", LONG, self._uniform())

    @property
    def many_zipf(self) -> DataFrame:
        """`zipf` for a job of ten seconds."""
        return self._events("many_zipf", LONG, self._zipf())

    @property
    def many_half(self) -> DataFrame:
        """`half` for a job of ten seconds."""
        return self._events("many_half", LONG, self._hot(50, F.lit(7)))

    @property
    def visits(self) -> DataFrame:
        """Other events of the same users, Zipf again, with other names for the columns."""
        return self._kept(
            "visits",
            lambda: self._rows("other", SHORT, self._zipf()).selectExpr(
                "id AS visit", "user", "user AS visitor", "day", "number", "w AS pages"
            ),
        )

    # What events are joined with.

    @property
    def users(self) -> DataFrame:
        """One row per user, with the number as an int."""
        return self._kept(
            "users",
            lambda: self.spark.range(self._keys).selectExpr(
                "concat('user-', id) AS user",
                "id AS number",
                "int(id) AS small",
                "concat('name of ', id) AS name",
                "int(id % 90) AS age",
            ),
        )

    @property
    def countries(self) -> DataFrame:
        """Forty rows."""
        return self._kept(
            "countries",
            lambda: self.spark.range(40).selectExpr("concat('c', id) AS country", "int(id % 6) AS continent"),
        )

    # The same events from elsewhere.

    @property
    def csv(self) -> DataFrame:
        """`zipf` as CSV files."""
        path = self.folder / "csv"
        if "csv" not in self._made:
            self.zipf.drop("s").write.csv(str(path), header=True)
            self._made["csv"] = self.spark.read.csv(str(path), schema=EVENT, header=True)
        return self._made["csv"]

    @property
    def memory(self) -> DataFrame:
        """Some of `half`, from the memory of the driver."""
        if "memory" not in self._made:
            some = self.half.drop("s").where("id % 10 = 0").toArrow()
            self._made["memory"] = self.spark.createDataFrame(some)
        return self._made["memory"]

    @property
    def cached(self) -> DataFrame:
        """`half`, cached."""
        if "cached" not in self._made:
            self._made["cached"] = self.half.where("id >= 0").cache()
            self._made["cached"].count()
        return self._made["cached"]

    @property
    def computed(self) -> DataFrame:
        """A tenth of `half` after a Python function that takes most of the time."""
        some = self.half.drop("s").where("id % 10 = 0")
        return some.mapInPandas(slowly(40_000), EVENT)

    def _events(self, name: str, rows: int, number: Column) -> DataFrame:
        return self._kept(name, lambda: self._rows(name, rows, number))

    def _rows(self, seed: str, rows: int, number: Column) -> DataFrame:
        drawn = self.spark.range(max(FEWEST, int(rows * self.scale)), numPartitions=4)
        drawn = drawn.withColumn("h", F.xxhash64("id", F.lit(seed))).withColumn("number", number)
        return drawn.selectExpr(
            "id",
            "concat('user-', number) AS user",
            "number",
            "int(pmod(xxhash64(h, 1), 30)) AS day",
            "concat('k', pmod(xxhash64(h, 2), 8)) AS kind",
            "concat('c', pmod(number, 40)) AS country",
            "pmod(xxhash64(h, 3), 100000) AS v",
            "int(pmod(xxhash64(h, 4), 100)) AS w",
            "struct(concat('user-', number) AS field) AS s",
        )

    def _uniform(self) -> Column:
        return F.pmod(F.col("h"), F.lit(self._keys))

    def _zipf(self) -> Column:
        """A number whose logarithm is uniform has the distribution 1/k."""
        share = F.pmod(F.col("h"), F.lit(1_000_003)) / 1_000_003
        return F.floor(F.pow(F.lit(float(self._keys)), share)) - 1

    def _hot(self, percent: int, key: Column) -> Column:
        hot = F.pmod(F.xxhash64("h"), F.lit(100)) < percent
        return F.when(hot, key).otherwise(self._uniform()).cast("bigint")

    @property
    def _keys(self) -> int:
        return max(FEWEST, int(USERS * self.scale))

    def _kept(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Written to Parquet once, so that every run reads the same files."""
        if name not in self._made:
            path = str(self.folder / name)
            rows = make()
            rows.write.parquet(path)
            # Without a schema, Connect reads it from the files in a job of its own, now and then: it keeps some plans.
            self._made[name] = self.spark.read.schema(rows.schema).parquet(path)
        return self._made[name]
