"""A running live query: Spark's StreamingQuery, the number of slots in hand, and the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unskew.core.html import columns, fragment
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
    def lastProgress(self) -> Any:
        """What Spark reports of the last batch; `numRowsTotal` of an operator is the number of its keys (and windows).

        In Spark's own state store a row is a piece of many keys.
        """
        progress = self._query.lastProgress
        return None if progress is None else self._with_keys(progress)

    @property
    def recentProgress(self) -> list[Any]:
        """The same of the last batches, oldest first."""
        return [self._with_keys(progress) for progress in self._query.recentProgress]

    def _with_keys(self, progress: Any) -> Any:
        """The progress with the number of keys that each operator has, in its slots and on the way between them."""
        ours = [o for o in progress["stateOperators"] if "transformWithState" in o.get("operatorName", "")]
        # Spark lists the last operator first; what stands after ours is upstream of them
        for operator, ledger in zip(ours, reversed(self._ledgers), strict=False):
            lines = [
                line for line in ledger.lines(progress["batchId"]) if line["batch"] == progress["batchId"]
            ]
            if lines:
                operator["numRowsTotal"] = lines[0]["state"]["rows"] + lines[0]["moved"]["rows"]
        return progress

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

    def _repr_html_(self) -> str:
        """What a notebook shows: the imbalance of the last batches, and the last decision."""
        lines = self.journal()[-40:]
        facts = [
            ("state", "running" if self.isActive else "stopped"),
            ("batches", f"{len(self.journal()):,}"),
        ]
        if not lines:
            return fragment("Live query", facts)
        last = lines[-1]
        facts += [
            ("imbalance of the last batch", f"{last['imbalance']:.2f}, at least {last['bound']:.2f}"),
            ("keys moved", f"{sum(line['moved']['rows'] for line in lines):,} in these batches"),
            ("last decision", str(last["decision"]["reason"])),
        ]
        imbalances = [float(line["imbalance"]) for line in lines]
        return fragment(
            "Live query", facts, columns("Imbalance, batch by batch", imbalances, 1.0, "perfectly even")
        )

    def __repr__(self) -> str:
        state = "running" if self.isActive else "stopped"
        checkpoint = self._ledgers[0].spark.address
        return f"LiveQuery({state}, {len(self._ledgers)} operators, at most {self._max_slots} slots, {checkpoint})"
