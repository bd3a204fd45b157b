"""The two sides of a join by slot: what is measured of a side, and how its rows reach their slots.

The slot is a column, computed before the shuffle and compared after the key. As an expression it would need no room in
the shuffle, but Spark would evaluate it again at every comparison of its sort: a join by a string took 1.4 times as
long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from unskew.core.histogram import Histogram
from unskew.core.join_load import without_null
from unskew.core.routing import RoutingTable
from unskew.spark.join_keys import KeyPart
from unskew.spark.keys import KeyColumns, column, field, free_name, key_columns, quoted
from unskew.spark.row_order import has_fixed_order, rough_hash
from unskew.spark.slot_expression import slot_term
from unskew.spark.versions.placing import by_slot_and_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Side:
    """One input of a join, and what the join compares of it.

    `preserved` says that the join emits its rows even if they match nothing; `names` are the names of the key columns
    in what is measured, the same on both sides.
    """

    df: DataFrame
    parts: tuple[KeyPart, ...]
    names: tuple[str, ...]
    preserved: bool
    weight: str | None

    @cached_property
    def has_nulls(self) -> bool:
        """Whether rows may have a key that matches nothing because it is null."""
        fields = self.df.select(*(part.column() for part in self.parts)).schema.fields
        return any(
            each.nullable and not part.null_safe for each, part in zip(fields, self.parts, strict=True)
        )

    @property
    def key_hash(self) -> str:
        """The 64-bit hash of the key, in SQL."""
        return f"xxhash64({', '.join(part.text for part in self.parts)})"

    @property
    def has_key(self) -> str:
        """No part of the key is null that has to be equal; NaN is a key like any other. In SQL."""
        needed = [f"{part.text} is not null" for part in self.parts if not part.null_safe]
        return f"({' and '.join(needed) or 'true'})"

    @cached_property
    def measured(self) -> DataFrame:
        """The key columns and the weight, and nothing else, so that nothing else is read.

        A key with a null that matches nothing is null as a whole. Rows with such a key are not filtered out where the
        join does: Spark would then have to look at the key of every row, not only at those that are sampled.
        """
        whole = len(self.parts) == 1 or not self.has_nulls
        columns = [
            F.expr(f"{part.text if whole else f'if({self.has_key}, {part.text}, null)'} as {quoted(name)}")
            for name, part in zip(self.names, self.parts, strict=True)
        ]
        if self.weight is not None:
            columns.append(column(self.weight).alias(free_name("__weight", self.names)))
        return self.df.select(*columns)

    @cached_property
    def keys(self) -> KeyColumns:
        """The key of `measured`; a ValueError if keys of this type cannot be hashed."""
        return key_columns(self.measured, self.names)

    def joined(self, histogram: Histogram) -> Histogram:
        """The histogram of `measured` without the null keys of a side that need not be emitted, which Spark drops."""
        if self.preserved or not self.has_nulls:
            return histogram
        return without_null(histogram)[0]

    @property
    def measured_weight(self) -> str | None:
        """The name of the weight in `measured`."""
        return None if self.weight is None else self.measured.columns[-1]

    def routed(self, table: RoutingTable, name: str, *, spread: bool) -> DataFrame:
        """The rows in the partitions of their slots, with the column `name` that tells slots apart."""
        slot = slot_term(table, self.key_hash)
        if spread and self.has_nulls:
            slot = f"if({self.has_key}, {slot}, {spread_slot(self.df, table.slots)})"
        # never null, but only this tells Spark
        slots = self.df.withColumn(name, F.expr(f"coalesce({slot}, 0)"))
        return by_slot_and_key(slots, table.slots, name, [part.column() for part in self.parts])


def spread_slot(df: DataFrame, slots: int) -> str:
    """Any slot for a row that matches nothing, in SQL, so that such rows are spread evenly whatever they hold.

    A task that runs again, since its output was lost, must send every row where it sent it before: a reducer that has
    read the first output and one that reads the second would else both get a row, or neither. Spark deals rows in turn,
    which depends on their order, and so sorts them first. Here the rows are dealt in turn only if their order cannot
    change: files and the like are read in the same order every time. Behind a shuffle, where rows arrive as they come,
    the slot is a function of the number of the map task, which stays the same, and of what the row holds. Rows equal in
    every column then share a slot within one map task, and are spread over the slots by the map tasks.
    """
    by_content = f"pmod({rough_hash(df)}, {slots}) + spark_partition_id()"
    in_turn = f"{NUMBER_IN_PARTITION} + spark_partition_id()"
    turn = in_turn if has_fixed_order(df) else by_content
    return f"cast(pmod({turn}, {slots}) as int)"


NUMBER_IN_PARTITION = f"(monotonically_increasing_id() & {(1 << 33) - 1})"
"""The number of a row within its partition, as rows come; in SQL.

Of the number that Spark gives a record the low 33 bits count the rows of a partition.
"""


def part_names(df: DataFrame, parts: Sequence[KeyPart]) -> tuple[str, ...]:
    """Names for the parts of a key: those of the columns, unless one column is compared twice."""
    names: list[str] = []
    for part in parts:
        names.append(free_name(field(df, part.name).name, names))
    return tuple(names)
