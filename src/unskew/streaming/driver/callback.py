"""What Spark calls after each batch: the user's sink, then the next turn of every operator, upstream first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from unskew.core.migration.protocol import Turn
from unskew.streaming.driver.controller import Controller
from unskew.streaming.driver.joint_planning import Together
from unskew.streaming.failpoints import failpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sink = Callable[["DataFrame", int], Any]


@dataclass
class Callback:
    """The callback of `foreachBatch`; it runs again when a batch is replayed."""

    controllers: Sequence[Controller]
    sink: Sink
    persist: bool = False
    together: Together | None = None

    def __call__(self, df: DataFrame, batch: int) -> None:
        """What is done after a batch, or once more after a batch that is replayed."""
        started = time.perf_counter()
        turns = [controller.open(batch) for controller in self.controllers]
        failpoint("sink", batch)
        self._write(df, batch, turns)
        failpoint("written", batch)
        wall = time.perf_counter() - started

        heard = [c.heard(turn, wall) for c, turn in zip(self.controllers, turns, strict=True)]
        wanted = None if self.together is None else self.together.decide(self.controllers, turns, heard)
        for at, (controller, turn) in enumerate(zip(self.controllers, turns, strict=True)):
            controller.close(turn, heard[at], wall, None if wanted is None else wanted[at])

    def _write(self, df: DataFrame, batch: int, turns: Sequence[Turn]) -> None:
        """Let the user's sink run; a sink that did not read all of the batch must not stop the state."""
        held = df.persist() if self.persist else df
        try:
            self.sink(held, batch)
            if not self._read_whole(turns):
                held.write.format("noop").mode("overwrite").save()
        finally:
            if self.persist:
                held.unpersist()

    def _read_whole(self, turns: Sequence[Turn]) -> bool:
        """Whether every slot was called, and by a user's function, which may read a part, to its end."""
        asked = list(zip(self.controllers, turns, strict=True))
        if not all(controller.is_heard(turn) for controller, turn in asked):
            return False
        return not isinstance(self.sink, FunctionType) or all(c.is_stored(turn) for c, turn in asked)
