"""Plans that recurring jobs keep: made by the first run, used by every later one, refreshed when they are stale.

`Kept` is what the user passes as `plan=`. An operator turns it into a `KeptPlan`, which has read the file, once, before
any Spark job; `watch.py` reviews the plan when the user's action has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from unskew.core import addresses, files
from unskew.core.addresses import Address
from unskew.core.plan import Plan
from unskew.core.review import (
    PlanInFile,
    Planning,
    PlanReview,
    first,
    made,
    resized,
    reviewed,
    with_key_type,
)
from unskew.core.routing import check_slots
from unskew.spark import watch
from unskew.spark.no_measure import measuring_allowed, warn_once, warn_plain

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from unskew.core.histogram import Histogram
    from unskew.spark.keys import KeyColumns


@dataclass(frozen=True)
class Kept:
    """The address of a plan that a recurring job keeps: `unskew.groupBy(df, "user", plan=unskew.Kept("user.plan"))`.

    - The first run finds no file: it measures, plans and saves the plan.
    - Every later run uses the saved plan. It starts no job to measure: the load is counted while the user's own job
      runs (see `unskew.observe`).
    - When the action has ended, the plan is reviewed. If the observed load is more than `stale` times as uneven under
      it as under a new plan, the new plan, which moves as little as possible, is saved for the next run.
    - The file has a journal of these reviews: `print(*kept.journal(), sep="\\n")`.

    Reviews run in a background thread, and at the latest when the process ends. Only the first action on a DataFrame is
    observed. A weight cannot be observed, nor a cogroup on Connect: there the plan stays until its file is deleted.

    With `fallback="error"` a plan that cannot be used (damaged, unreachable, for keys of another type) is a ValueError
    before any job starts. With `fallback="plain"` it is a warning, and plain Spark does the work; such a file is never
    overwritten.

    Runs at the same time do not lose each other's reviews on a local file system. On others, the last to write wins.
    """

    address: Address
    stale: float = 1.1
    fallback: Literal["error", "plain"] = "error"

    def __post_init__(self) -> None:
        if not isinstance(self.address, Address) or not str(self.address).strip():
            raise ValueError(f"a kept plan needs the address of its file, not {self.address!r}")
        if isinstance(self.stale, bool) or not isinstance(self.stale, int | float) or not self.stale >= 1.0:
            raise ValueError(f"stale is a factor of 1 or more, such as 1.1, not {self.stale!r}")
        if self.fallback not in ("error", "plain"):
            raise ValueError(f"fallback is 'error' or 'plain', not {self.fallback!r}")

    def journal(self) -> list[PlanReview]:
        """What became of the plan after each run, oldest first; empty before the first run. At most 100 reviews."""
        watch.settle(str(self.address), watch.BRIEFLY)
        kept = self._read()
        return [] if kept is None else list(kept.journal)

    def refresh(self, wait: float = 10.0) -> list[PlanReview]:
        """Review the plan now by what the runs of this process have observed, and return their reviews.

        There is no need to call it: reviews happen by themselves. It waits until they are done, or at most `wait`
        seconds if an action is still running or was never started.
        """
        before = len(self.journal())
        watch.settle(str(self.address), wait)
        return self.journal()[before:]

    def opened(self) -> KeptPlan:
        """The plan as an operator uses it: read now, without a job; a file that cannot be used is refused."""
        watch.settle(str(self.address), watch.BRIEFLY)
        kept = KeptPlan(self)
        try:
            kept.file = self._read()
            if kept.file is None:
                addresses.check_writable(self.address)
        except ValueError as error:
            kept.refuse(error)
        return kept

    def _read(self, session: Any = None) -> PlanInFile | None:
        try:
            data = addresses.read(self.address, session)
        except FileNotFoundError:
            return None
        return PlanInFile.from_bytes(data, str(self.address))

    def _update(
        self, change: Callable[[PlanInFile | None], PlanInFile | None], session: Any
    ) -> PlanInFile | None:
        """Replace the file by what `change` makes of it; returns what is there afterwards."""
        result: list[PlanInFile | None] = []

        def changed(data: bytes | None) -> bytes | None:
            before = None if data is None else PlanInFile.from_bytes(data, str(self.address))
            after = change(before)
            result.append(after or before)
            return None if after is None else after.to_bytes()

        addresses.update(self.address, changed, session)
        return result[-1]


class KeptPlan:
    """One use of a kept plan by one operator."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.file: PlanInFile | None = None
        self.refused = False
        self.is_new = False

    @property
    def plan(self) -> Plan | None:
        """The plan in the file, if there is one that can be used."""
        return None if self.file is None or self.refused else self.file.plan

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeptPlan) and self.kept == other.kept

    def __hash__(self) -> int:
        return hash(self.kept)

    def __repr__(self) -> str:
        return f"{self.kept!r}"

    def refuse(self, error: ValueError) -> None:
        """Raise the error, or warn once and leave the work to plain Spark."""
        address = str(self.kept.address)
        text = str(error) if address in str(error) else f"{address}: {error}"
        if self.kept.fallback == "error":
            remedy = "delete the file to have it made again, or pass fallback='plain' to run without it"
            hint = (
                f" ({remedy})"
                if self.file is not None or isinstance(error, files.UnreadableFileError)
                else ""
            )
            raise ValueError(text + hint) from error
        self.refused = True
        warn_once(address, f"{text}: plain Spark is used instead")

    def check(self, key_type: pa.DataType, slots: int | None) -> None:
        """Refuse a plan for other keys, or one that cannot have this many slots; no Spark job runs."""
        if self.plan is None:
            return
        try:
            self.plan.check(key_type)
            if slots is not None:
                check_slots(slots, len(self.plan.table.buckets))
        except ValueError as error:
            self.refuse(error)

    def plan_for(
        self, df: DataFrame, planning: Planning, measured: Callable[[], Plan], operator: str
    ) -> Plan | None:
        """The plan in the file, for the number of slots asked for; without a file it is measured; None: plain Spark."""
        if self.refused:
            return None
        session = df.sparkSession
        if self.file is None:
            if not measuring_allowed(df):
                warn_plain(operator)
                return None
            new = made(measured(), planning, "the first run was measured")
            self.is_new = True
            self._save(lambda before: None if before is not None else new, session, new)
        elif planning.slots != self.file.plan.slots:
            new = resized(self.file, planning)
            self._save(partial(_resized_unless_done, planning=planning), session, new)
        return self.plan

    def _save(
        self, change: Callable[[PlanInFile | None], PlanInFile | None], session: Any, new: PlanInFile
    ) -> None:
        """Save a plan and use what is in the file then: another run may have been first."""
        self.file = new
        try:
            saved = self.kept._update(change, session)
        except (OSError, ValueError) as error:
            self.refuse(
                ValueError(f"{self.kept.address}: the plan cannot be saved: {addresses.one_line(error)}")
            )
            self.refused = False  # the plan itself can be used
            return
        if saved is not None and saved.plan.slots == new.plan.slots:
            self.file = saved

    def observed(
        self,
        inputs: Sequence[tuple[DataFrame, KeyColumns]],
        planning: Planning,
        buckets: int,
        combined: Callable[[Sequence[Histogram]], Histogram],
        *,
        skips_null: bool,
    ) -> list[DataFrame]:
        """The inputs, counted while the user's job reads them, with or without rows that have a null in their key."""
        rows = [df for df, _ in inputs]
        if self.refused or self.is_new:
            return rows
        if self.plan is not None:
            buckets = len(self.plan.table.buckets)
        session = rows[0].sparkSession
        review = partial(self._review, planning=planning, combined=combined, session=session)
        address = str(self.kept.address)
        return watch.observe(address, inputs, buckets, review, skips_null=skips_null) or rows

    def _review(
        self,
        histograms: Sequence[Histogram],
        planning: Planning,
        combined: Callable[[Sequence[Histogram]], Histogram],
        session: Any,
    ) -> None:
        """Review the plan in the file, which may be newer than the one that the run used."""
        key_type = histograms[0].key_type
        histogram = combined([with_key_type(histogram, key_type) for histogram in histograms])

        def change(before: PlanInFile | None) -> PlanInFile | None:
            if before is None:
                return first(histogram, planning, "the first run was observed") if histogram.total else None
            before.plan.check(histogram.key_type)
            return reviewed(before, histogram, planning, self.kept.stale)

        self.kept._update(change, session)


def _resized_unless_done(before: PlanInFile | None, planning: Planning) -> PlanInFile | None:
    """What replaces the file: nothing if another run has saved a plan for this many slots."""
    if before is None or before.plan.slots == planning.slots:
        return None
    return resized(before, planning)
