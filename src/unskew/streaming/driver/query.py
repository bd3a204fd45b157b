"""A running live query: Spark's StreamingQuery, the number of slots in hand, and the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unskew.streaming.storage.lease import Lock
from unskew.streaming.storage.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class LiveQuery:
    """Everything that Spark's StreamingQuery has, and `scale` and `journal`."""

    def __init__(self, query: StreamingQuery, ledgers: Sequence[Ledger], lock: Lock, max_slots: int) -> None:
        self._query = query
        self._ledgers = ledgers
        self._lock = lock
        self._max_slots = max_slots

    def scale(self, slots: int | None) -> None:
        """Ask for `slots` slots from one of the next batches on; None leaves N to the `scaling` rule again.

        Of operators in a row each gets as many.
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
        """One line a batch, from batch `since` on: loads, imbalance, bound, moves, times, what was decided and why.

        Of operators in a row each has a journal; the first is 0.
        """
        return self._ledgers[operator].lines(since)

    def stop(self) -> None:
        """Stop the query; it can be started again from its checkpoint."""
        self._query.stop()
        self._lock.release()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query ends, or `timeout` seconds; raises what made it fail."""
        ended = None
        try:
            ended = self._query.awaitTermination(timeout)  # type: ignore[arg-type]
        finally:
            if not self._query.isActive:
                self._lock.release()
        return ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)
