"""`pivot` of grouped rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

    from unskew.spark.groupby import Grouped


@dataclass(frozen=True)
class Pivoted:
    """Grouped rows, pivoted on a column; what `Grouped.pivot` returns."""

    groups: Grouped
    pivot_col: str
    values: list[Any] | None

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrame:
        """Aggregate every group for every value of the pivot column, as PySpark's method of this name does."""
        return self.groups._aggregate(
            lambda grouped: grouped.pivot(self.pivot_col, self.values).agg(*exprs)  # type: ignore[arg-type]
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

    def _plain(self) -> GroupedData:
        """Plain Spark's own: these aggregates are combined before the shuffle."""
        return self.groups._plain().pivot(self.pivot_col, self.values)
