"""From a histogram to a plan: input checked, a planner run, the outcome in figures."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from unskew.core import files
from unskew.core.histogram import Floats, Histogram
from unskew.core.loads import Migration, check_match, imbalance, lower_bound, migration, slot_loads
from unskew.core.planners import NAMES, SPLITTING, auto, planner
from unskew.core.routing import RoutingTable, check_slots

_KIND, _FORMAT = "plan", 1
_GIVEN = frozenset({"histogram", "slots", "previous", "seed"})


def make_table(
    name: str,
    histogram: Histogram,
    slots: int,
    previous: RoutingTable | None = None,
    *,
    seed: int = 0,
    **options: Any,
) -> RoutingTable:
    """Run the planner called `name`; nonsense is refused with a ValueError before it starts.

    An empty histogram asks for no change: the previous table if it has N slots, else plain hashing (also
    where the previous table splits keys and the planner does not). The new table's version is one above
    the previous one's.
    """
    check_name(name)
    check_slots(slots, histogram.buckets)
    run = planner(name)
    _check_options(name, options)
    if previous is not None:
        check_match(previous, histogram)
    if histogram.total == 0:
        table = previous
        if table is None or table.slots != slots or (table.is_split and name not in SPLITTING):
            table = RoutingTable.hashed(slots, histogram.buckets, histogram.key_type)
    else:
        table = run(histogram, slots, previous, seed=seed, **options)
    return table.with_version(previous.version + 1 if previous is not None else 1)


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
    ) -> Self:
        """Plan for `slots` slots, starting from `previous` where given."""
        before = previous.table if isinstance(previous, Plan) else previous
        table = make_table(planner, histogram, slots, before, seed=seed, **options)
        reason = auto.choose(histogram, slots, before, **options).reason if planner == "auto" else ""
        return cls(table, histogram, planner, before, options, reason)

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

    def save(self, path: str | Path) -> None:
        """Write the plan to a checked file; an option that is not plain data is kept as its text."""
        parts = {"table": self.table.to_bytes(), "histogram": self.histogram.to_bytes()}
        if self.previous is not None:
            parts["previous"] = self.previous.to_bytes()
        options = {name: files.plain(value) for name, value in self.options.items()}
        meta = {"planner": self.planner, "options": options, "reason": self.reason}
        files.write(path, files.encode_parts(_KIND, _FORMAT, meta, parts))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan that `save` wrote; a damaged file is refused by name."""
        name = str(path)
        meta, parts = files.decode_parts(Path(path).read_bytes(), _KIND, _FORMAT, name)
        previous = RoutingTable.from_bytes(parts["previous"], name) if "previous" in parts else None
        return cls(
            RoutingTable.from_bytes(parts["table"], name),
            Histogram.from_bytes(parts["histogram"], name),
            meta["planner"],
            previous,
            meta["options"],
            meta["reason"],
        )


def options_of(name: str) -> dict[str, Any]:
    """The options of a planner and their defaults."""
    parameters = inspect.signature(planner(name)).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in _GIVEN}


def series(name: str, windows: Sequence[Histogram]) -> dict[str, Any]:
    """The option `windows` for a planner that has it: the windows so far, the only one twice."""
    if "windows" not in options_of(name):
        return {}
    return {"windows": windows if len(windows) > 1 else [*windows, *windows]}


def check_name(name: str) -> None:
    """Refuse a name that no planner has, with the nearest one that there is."""
    if name not in NAMES:
        close = difflib.get_close_matches(str(name), NAMES, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no planner {name!r}: {hint}choose one of {', '.join(NAMES)}")


def _check_options(name: str, options: dict[str, Any]) -> None:
    known = options_of(name)
    for option in options:
        if option not in known:
            close = difflib.get_close_matches(option, known, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"planner {name!r} has no option {option!r}: {hint}{takes}")
