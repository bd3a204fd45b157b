"""From a histogram to a plan: the input is checked, a planner runs, and its table is kept with what it was made from.

The path is measure → plan → route: `unskew.measure` gives a `Histogram`, `unskew.plan` calls `Plan.make`, which runs
the planner, and `Plan.apply` puts the table on a DataFrame. `make_table` is the middle step for callers that need the
table alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.histogram import Floats, Histogram
from unskew.core.html import columns, fragment
from unskew.core.loads import Migration, check_match, imbalance, lower_bound, migration, slot_loads
from unskew.core.planners import Planner, planner_named
from unskew.core.routing import RoutingTable, check_slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KIND = "plan"
"""What the first line of a saved plan calls it."""

_FORMAT = 1


def make_table(
    name: str,
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> RoutingTable:
    """The table of the planner called `name`; bad input is refused with a ValueError before the planner starts.

    An empty histogram asks for no change: the previous table if it has N slots, else plain hashing (also
    where the previous table splits keys and the planner does not). The new table's version is one above
    the previous one's.
    """
    table, _ = _table_and_reason(name, histogram, slots, previous, seed=seed, **options)
    return table


@dataclass(frozen=True, eq=False)
class Plan:
    """A routing table together with the measurement it was made from and what it will do.

    `imbalance` is the predicted max/mean slot load, `bound` the least that any table which keeps keys
    whole could reach, `migration` what changes against the table before it (None for a first plan),
    `reason` why `auto` chose as it did.

    >>> plan = Plan.make(Histogram.from_counts({"a": 5, "b": 4, "c": 1}), slots=2)
    >>> plan.imbalance, plan.bound
    (1.0, 1.0)
    """

    table: RoutingTable
    histogram: Histogram
    planner: str = "keel"
    previous: RoutingTable | None = None
    options: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def make(
        cls,
        histogram: Histogram,
        slots: int,
        planner: str = "auto",
        previous: Plan | RoutingTable | None = None,
        *,
        seed: int = 0,
        **options: Any,
    ) -> Plan:
        """Plan for `slots` slots, starting from `previous` if there is one."""
        before = previous.table if isinstance(previous, Plan) else previous
        if not isinstance(before, RoutingTable | None):
            raise ValueError(f"previous is a plan or a routing table, not a {type(previous).__name__}")
        table, reason = _table_and_reason(planner, histogram, slots, before, seed=seed, **options)
        return cls(table, histogram, planner, before, options, reason)

    def _repr_html_(self) -> str:
        """What a notebook shows: the load of every slot."""
        facts = [
            ("slots", f"{self.table.slots:,}"),
            ("heavy keys", f"{len(self.heavy):,}"),
            ("imbalance", f"{self.imbalance:.3f}, at least {self.bound:.3f} with whole keys"),
        ]
        if self.reason:
            facts.append(("why", self.reason))
        mean = float(self.loads.mean())
        picture = columns("Load of every slot", self.loads.tolist(), mean, "the mean")
        return fragment(f"Plan ({self.planner})", facts, picture)

    @cached_property
    def loads(self) -> Floats:
        """The predicted load of each slot."""
        return slot_loads(self.table, self.histogram)

    @property
    def imbalance(self) -> float:
        """Predicted max/mean slot load."""
        return imbalance(self.loads)

    @property
    def bound(self) -> float:
        """The least imbalance that is possible with whole keys."""
        return lower_bound(self.histogram, self.table.slots)

    @property
    def heavy(self) -> dict[Any, int | tuple[int, ...]]:
        """Heavy key → slot or slots."""
        return self.table.heavy

    @cached_property
    def migration(self) -> Migration | None:
        """What moves against the previous table; None for a first plan."""
        return None if self.previous is None else migration(self.previous, self.table, self.histogram)

    @property
    def slots(self) -> int:
        """N."""
        return self.table.slots

    def __repr__(self) -> str:
        return (
            f"Plan({self.planner}, {self.slots} slots, {len(self.table.hashes)} heavy keys, "
            f"imbalance {self.imbalance:.3f}, bound {self.bound:.3f})"
        )

    def apply(self, df: DataFrame, key: str | Sequence[str] | None = None, *more: str) -> DataFrame:
        """Add the column `slot` and partition by it: `df.transform(plan.apply)`.

        The key is that of the measured DataFrame, unless it is named here. Partition i holds slot i.

        The core imports Spark here only when this is called: planning needs none.
        """
        from unskew.spark.apply_plan import apply_plan

        return apply_plan(self, df, key, *more)

    def key_names(self, df: DataFrame) -> tuple[str, ...]:
        """The key columns the plan was measured on."""
        names = self.histogram.key_names
        if not names:
            raise ValueError(
                f"the plan does not know its key columns: name them, one or more of {', '.join(df.columns)}"
            )
        return names

    def check(self, key_type: pa.DataType, slots: int | None = None) -> None:
        """Refuse to be used for another key type or another number of slots."""
        check_table(self.table, key_type, slots)

    def save(self, path: Address) -> None:
        """Write the plan to a checked file; an option that is not plain data is saved as its text.

        `path` may be an address of any file system that Arrow or Spark reaches, such as `s3a://bucket/user.plan`.
        """
        addresses.write(path, self.to_bytes())

    def to_bytes(self, **more: Any) -> bytes:
        """The plan as the bytes of a checked file; `more` is plain data that is saved with it."""
        parts = {"table": self.table.to_bytes(), "histogram": self.histogram.to_bytes()}
        if self.previous is not None:
            parts["previous"] = self.previous.to_bytes()
        options = {name: files.plain(value) for name, value in self.options.items()}
        meta = {"planner": self.planner, "options": options, "reason": self.reason, **more}
        return files.encode_parts(KIND, _FORMAT, meta, parts)

    @classmethod
    def load(cls, path: Address) -> Plan:
        """Read a plan that `save` wrote; a damaged file is refused by name."""
        return cls.from_bytes(addresses.read(path), str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "plan") -> Plan:
        """Read what `to_bytes` wrote."""
        meta, parts = files.decode_parts(data, KIND, _FORMAT, name)
        previous = RoutingTable.from_bytes(parts["previous"], name) if "previous" in parts else None
        return cls(
            RoutingTable.from_bytes(parts["table"], name),
            Histogram.from_bytes(parts["histogram"], name),
            meta["planner"],
            previous,
            meta["options"],
            meta["reason"],
        )


def check_table(table: RoutingTable, key_type: pa.DataType, slots: int | None = None) -> None:
    """Refuse to use a planned table for another key type or another number of slots."""
    if not _same_hash(table.key_type, key_type):
        raise ValueError(
            f"the plan is for {table.key_type} keys, but the key here is {key_type}: measure and plan again"
        )
    if slots is not None and slots != table.slots:
        raise ValueError(
            f"the plan is for {table.slots} slots, but slots={slots} was passed: leave slots out, or make a new "
            f"plan with unskew.plan(histogram, slots={slots}, previous=plan)"
        )


def _table_and_reason(
    name: str,
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None,
    *,
    seed: int,
    **options: Any,
) -> tuple[RoutingTable, str]:
    chosen = planner_named(name)
    check_slots(slots, histogram.buckets)
    _check_options(chosen, options)
    if previous is not None:
        check_match(previous, histogram)
    if histogram.total == 0:
        table, reason = _unchanged(chosen, histogram, slots, previous), "nothing was measured"
    else:
        table, reason = chosen.run(histogram, slots, previous, seed=seed, **options)
    return table.with_version(previous.version + 1 if previous is not None else 1), reason


def _unchanged(
    chosen: Planner, histogram: Histogram, slots: int, previous: RoutingTable | None
) -> RoutingTable:
    """The table where nothing was measured."""
    if previous is None or previous.slots != slots or (previous.is_split and not chosen.splits):
        return RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)
    return previous


def _check_options(chosen: Planner, options: dict[str, Any]) -> None:
    for option in options:
        if option not in chosen.options:
            close = difflib.get_close_matches(option, chosen.options, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            takes = f"it takes {', '.join(chosen.options)}" if chosen.options else "it takes none"
            raise ValueError(f"planner {chosen.name!r} has no option {option!r}: {hint}{takes}")


def _same_hash(a: pa.DataType, b: pa.DataType) -> bool:
    """Whether keys of both types are hashed alike; the names of a composite key's columns do not matter."""
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        fields = [[t.field(i).type for i in range(t.num_fields)] for t in (a, b)]
        return len(fields[0]) == len(fields[1]) and all(map(_same_hash, *fields))
    return bool(a.equals(b))
