"""`pivot` of grouped rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

    from unskew.spark.groupby import Grouped

_LISTED = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.BooleanType)
"""Values that, like text, Python sorts as Spark does, and that Spark reads back from Python as they were."""

_REPLACED = "\ufffd"
"""What Python gets for bytes that are no text."""


@dataclass(frozen=True)
class Pivoted:
    """Grouped rows, pivoted on a column; what `Grouped.pivot` returns."""

    groups: Grouped
    pivot_col: str
    values: list[Any] | None

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrame:
        """Aggregate every group for every value of the pivot column, as PySpark's method of this name does."""
        values = self._values() if self.values is None else self.values
        return self.groups._aggregate(
            lambda grouped: grouped.pivot(self.pivot_col, values).agg(*exprs)  # type: ignore[arg-type]
        )

    def count(self) -> DataFrame:
        """The number of rows of every group, for every value of the pivot column."""
        return self._plain().count()

    def sum(self, *cols: str) -> DataFrame:
        """The sum of each numeric column, or of those named."""
        return self._plain().sum(*cols)

    def avg(self, *cols: str) -> DataFrame:
        """The mean of each numeric column, or of those named."""
        return self._plain().avg(*cols)

    def mean(self, *cols: str) -> DataFrame:
        """The mean of each numeric column, or of those named."""
        return self._plain().mean(*cols)

    def min(self, *cols: str) -> DataFrame:
        """The least value of each numeric column, or of those named."""
        return self._plain().min(*cols)

    def max(self, *cols: str) -> DataFrame:
        """The greatest value of each numeric column, or of those named."""
        return self._plain().max(*cols)

    def _values(self) -> list[Any] | None:
        """The values of the pivot column, looked up once as Spark looks them up; None leaves that to Spark.

        Spark looks them up in the rows that it is to pivot. Where these are shuffled by slot, it would shuffle them
        for that alone, after it has read them from the rows as they are.
        """
        df = self.groups.df
        try:
            rows = df.select(self.pivot_col).distinct()
            kind = rows.schema[0].dataType
            if not (isinstance(kind, _LISTED) or kind == T.StringType()):
                return None
            most = int(df.sparkSession.conf.get("spark.sql.pivotMaxValues") or 0)
        except PySparkException:
            return None  # Spark says what is wrong with the column
        values = [row[0] for row in rows.limit(most + 1).collect()]
        if len(values) > most or any(_REPLACED in str(value) for value in values):
            return None
        return sorted(values, key=lambda value: (value is not None, value))  # null first, as in Spark

    def _plain(self) -> GroupedData:
        """Plain Spark's own: these aggregates are combined before the shuffle."""
        return self.groups._plain().pivot(self.pivot_col, self.values)
