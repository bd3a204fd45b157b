"""`pivot` of grouped rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from unskew.spark.groupby import Grouped


@dataclass(frozen=True)
class Pivoted:
    """Grouped rows, pivoted on a column; what `Grouped.pivot` returns. Its methods are those of `GroupedData`."""

    groups: Grouped
    pivot_col: str
    values: list[Any] | None

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrame:
        """Aggregate every group for every value of the pivot column, as PySpark's method of this name does."""
        return self.groups._aggregate(
            lambda grouped: grouped.pivot(self.pivot_col, self.values).agg(*exprs)  # type: ignore[arg-type]
        )

    def __getattr__(self, name: str) -> Any:
        # count, sum, avg, mean, min, max: combined before the shuffle, so plain Spark's own
        return getattr(self.groups._plain().pivot(self.pivot_col, self.values), name)
