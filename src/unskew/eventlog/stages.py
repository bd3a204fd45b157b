"""Tasks and stages as the log tells them. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unskew.core.histogram import Floats
from unskew.core.scheduling import makespan
from unskew.eventlog.plans import Shuffle


@dataclass(frozen=True, slots=True)
class Task:
    """The attempt of a task that succeeded; `seconds` is from its launch to its end.

    Parts of it are `run` on the executor, and of that `collecting` garbage, `fetching` blocks of a shuffle and
    `starting` a Python worker.
    """

    index: int
    host: str
    launched: float
    seconds: float
    run: float = 0.0
    collecting: float = 0.0
    fetching: float = 0.0
    starting: float = 0.0
    spilled: int = 0
    shuffle_records: int = 0
    shuffle_bytes: int = 0
    input_records: int = 0
    input_bytes: int = 0


@dataclass(frozen=True)
class Query:
    """The SQL query that a stage belongs to: the number that Spark's UI shows, and where it was called."""

    number: int
    description: str


@dataclass(frozen=True)
class Stage:
    """One attempt of a stage.

    `tasks` are the successful ones in the order of their launch, one for each partition. `expected` is how many there
    should be, `failed` and `speculative` count attempts that did not succeed and copies that Spark started of slow
    tasks; `cores` is what the executors had together when the stage ended.
    """

    number: int
    attempt: int
    name: str
    tasks: tuple[Task, ...]
    expected: int
    failed: int
    speculative: int
    cores: int
    query: Query | None = None
    shuffle: Shuffle | None = None

    @property
    def label(self) -> str:
        """The stage as Spark's UI calls it; a repeated attempt has its number behind a point."""
        return f"{self.number}.{self.attempt}" if self.attempt else str(self.number)

    @cached_property
    def seconds(self) -> Floats:
        """How long each task took, in the order of their launch."""
        return np.array([task.seconds for task in self.tasks])

    @cached_property
    def longest(self) -> Task:
        """The task that took the longest time."""
        return max(self.tasks, key=lambda task: task.seconds)

    @cached_property
    def width(self) -> int:
        """How many tasks ran at the same time, at most.

        Spark may launch a task before it has noted the end of the last one, so the cores of all executors are a limit.
        """
        launched = np.array([task.launched for task in self.tasks])
        at = np.concatenate([launched + self.seconds, launched])
        change = np.repeat([-1, 1], len(self.tasks))
        # ends before starts at the same time: a core is free for the next task
        most = int(change[np.lexsort((change, at))].cumsum().max())
        return max(1, min(most, self.cores or most))

    @cached_property
    def length(self) -> float:
        """How long the stage takes on as many cores as it had, its tasks started in order on the next free one."""
        return makespan(self.seconds, self.width)

    @cached_property
    def even(self) -> float:
        """The same if all tasks took equally long."""
        return makespan(np.full(len(self.tasks), self.seconds.mean()), self.width)
