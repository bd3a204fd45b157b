"""A running live query: Spark's StreamingQuery, the number of slots in hand, and the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unskew.streaming.storage.lease import Lease
from unskew.streaming.storage.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery  # type: ignore[attr-defined]


class LiveQuery:
    """Everything that Spark's StreamingQuery has, and `scale` and `journal`."""

    def __init__(
        self, query: StreamingQuery, ledgers: Sequence[Ledger], lease: Lease, max_slots: int
    ) -> None:
        self._query = query
        self._ledgers = ledgers
        self._lease = lease
        self._max_slots = max_slots

    def scale(self, slots: int | None) -> None:
        """Ask for `slots` slots from one of the next batches on; None leaves it to the `scaling` rule again.

        Each of several chained operators gets that number.
        """
        if slots is not None and (
            isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= self._max_slots
        ):
            raise ValueError(
                f"slots is a whole number from 1 to max_slots={self._max_slots} of this checkpoint, not {slots!r}"
            )
        for ledger in self._ledgers:
            ledger.write_wish(slots)

    def journal(self, operator: int = 0, *, since: int = 0) -> list[dict[str, Any]]:
        """One line per batch, from batch `since` on: loads, imbalance, bound, moves, times, the decision and why.

        Each of several chained operators has a journal; the first is 0.
        """
        return self._ledgers[operator].lines(since)

    @property
    def isActive(self) -> bool:
        """Whether the query runs."""
        return bool(self._query.isActive)

    def stop(self) -> None:
        """Stop the query; it can be started again from its checkpoint."""
        self._query.stop()
        self._lease.release()

    def processAllAvailable(self) -> None:
        """Wait until everything that is available now has been handled."""
        self._query.processAllAvailable()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query ends, or `timeout` seconds; raises what made it fail."""
        has_ended = None
        try:
            has_ended = self._query.awaitTermination(timeout)  # type: ignore[arg-type]
        finally:
            if not self._query.isActive:
                self._lease.release()
        return has_ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def __repr__(self) -> str:
        state = "running" if self.isActive else "stopped"
        checkpoint = self._ledgers[0].spark.address
        return f"LiveQuery({state}, {len(self._ledgers)} operators, at most {self._max_slots} slots, {checkpoint})"
