"""What Spark calls after each batch: the user's sink, then the next turn of every operator, upstream first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unskew.core.migration.protocol import Turn
from unskew.streaming.driver.controller import Controller
from unskew.streaming.driver.joint_planning import JointPlanner
from unskew.streaming.driver.sinks import Sink, reads_whole_batch
from unskew.streaming.failpoints import failpoint
from unskew.streaming.storage.lease import Fence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class Callback:
    """The callback of `foreachBatch`; it runs again when a batch is replayed."""

    controllers: Sequence[Controller]
    sink: Sink
    persist: bool = False
    joint: JointPlanner | None = None
    fence: Fence | None = None

    def __call__(self, df: DataFrame, batch: int) -> None:
        """What is done after a batch, or once more after a batch that is replayed.

        1. Open the turn of every operator.
        2. Run the user's sink, which makes Spark run the batch.
        3. Collect what the slots reported.
        4. Decide: jointly for chained operators, else each operator alone.
        5. Close the turns, upstream first: the next turn is published, then the journal is written.

        All this only while this process holds the checkpoint: it is checked before the batch, before anything is
        published, and at the end, before Spark commits the batch.
        """
        self._check_fence()
        started = time.perf_counter()
        # 1. open
        turns = [controller.open(batch) for controller in self.controllers]
        failpoint("sink", batch)
        # 2. run the sink
        self._write(df, batch, turns)
        failpoint("written", batch)
        wall = time.perf_counter() - started
        # 3. collect
        reports = [
            controller.collect_reports(turn, wall)
            for controller, turn in zip(self.controllers, turns, strict=True)
        ]
        # 4. decide
        goals = None if self.joint is None else self.joint.decide(self.controllers, turns, reports)
        # 5. close
        self._check_fence()
        for number, (controller, turn) in enumerate(zip(self.controllers, turns, strict=True)):
            controller.close(turn, reports[number], wall, None if goals is None else goals[number])
        self._check_fence()

    def _check_fence(self) -> None:
        if self.fence is not None:
            self.fence.check()

    def _write(self, df: DataFrame, batch: int, turns: Sequence[Turn]) -> None:
        """Let the user's sink run; a sink that did not read all of the batch must not stop the state."""
        rows = df.persist() if self.persist else df
        try:
            self.sink(rows, batch)
            if not self._was_read_whole(turns):
                rows.write.format("noop").mode("overwrite").save()
        finally:
            if self.persist:
                rows.unpersist()

    def _was_read_whole(self, turns: Sequence[Turn]) -> bool:
        """Whether every slot was called; after a user's function, which may stop reading early, also to its end."""
        pairs = list(zip(self.controllers, turns, strict=True))
        if not all(controller.has_all_reports(turn) for controller, turn in pairs):
            return False
        if reads_whole_batch(self.sink):
            return True
        return all(controller.has_stored_state(turn) for controller, turn in pairs)
