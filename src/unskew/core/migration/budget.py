"""How much state may move in one batch: all of it, a few entries, or a share."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.core.histogram import Histogram
from unskew.core.migration.transition import check_pair, step_toward
from unskew.core.routing import RoutingTable


@dataclass(frozen=True)
class Budget:
    """How much of a migration is done in one batch, so that batch time stays flat (Megaphone's strategies).

    At most `share` of all state and at most `entries` entries move, but always at least one entry: repeated steps
    reach the goal.

    >>> old, new = RoutingTable.build(2, [0, 0, 0, 0]), RoutingTable.build(2, [1, 1, 1, 0])
    >>> [b.step(old, new).buckets.tolist() for b in (Budget.sudden(), Budget.fluid(1), Budget.batched(0.5))]
    [[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0]]
    """

    share: float = 1.0
    entries: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share is a part of the state, above 0 and at most 1, not {self.share}")
        is_whole = isinstance(self.entries, int) and not isinstance(self.entries, bool)
        if self.entries is not None and not (is_whole and self.entries >= 1):
            raise ValueError(f"entries is a whole number of at least 1, not {self.entries!r}")

    @classmethod
    def sudden(cls) -> Budget:
        """Everything at once."""
        return cls()

    @classmethod
    def fluid(cls, entries: int = 1) -> Budget:
        """A few entries per batch, however large they are."""
        return cls(entries=entries)

    @classmethod
    def batched(cls, share: float = 0.1) -> Budget:
        """A share of all state per batch."""
        return cls(share)

    def step(
        self, table: RoutingTable, goal: RoutingTable, histogram: Histogram | None = None
    ) -> RoutingTable:
        """The table to export towards next, on the way to `goal`."""
        if self == Budget.sudden():
            check_pair(table, goal)
            return goal
        return step_toward(table, goal, histogram, share=self.share, entries=self.entries)
