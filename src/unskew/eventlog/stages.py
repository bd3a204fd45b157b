"""Tasks and stages as the log records them. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unskew.core.histogram import Floats
from unskew.core.scheduling import makespan
from unskew.eventlog.plans import Shuffle


@dataclass(frozen=True, slots=True)
class Task:
    """The successful attempt of a task; `seconds` is the time from its launch to its end.

    Of that, `run` is the time on the executor, which includes `collecting` garbage, `fetching` blocks of a shuffle and
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
    """The SQL query that a stage belongs to: the number that Spark's UI shows, where it was called, what it reads."""

    number: int
    description: str
    source: str = ""


@dataclass(frozen=True, repr=False)
class Stage:
    """One attempt of a stage.

    `tasks` are the successful ones in the order of their launch, one per partition. `expected` is how many there
    should be; `failed` counts attempts that did not succeed, and `speculative` the copies of slow tasks that Spark
    started; `cores` is how many the executors had together when the stage ended; `sent` are the bytes that went to
    Python workers.
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
    sent: int = 0

    def __repr__(self) -> str:
        length = f", {self.length:.1f} s on {self.width} cores" if self.tasks else ""
        shuffle = "" if self.shuffle is None else f", {self.shuffle}"
        return f"Stage({self.label}: {len(self.tasks):,} of {self.expected:,} tasks{length}{shuffle})"

    @property
    def label(self) -> str:
        """The stage as Spark's UI calls it; a repeated attempt adds its number after a dot."""
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
        """The most tasks that ran at the same time.

        Spark may launch a task before it has recorded the end of the last one, so the executors' cores are a limit.
        """
        launched = np.array([task.launched for task in self.tasks])
        at = np.concatenate([launched + self.seconds, launched])
        change = np.repeat([-1, 1], len(self.tasks))
        # ends before starts at the same time: a core is free for the next task
        most = int(change[np.lexsort((change, at))].cumsum().max())
        return max(1, min(most, self.cores or most))

    @cached_property
    def length(self) -> float:
        """How long the stage takes on as many cores as it had, with tasks started in order on the next free core."""
        return makespan(self.seconds, self.width)

    @cached_property
    def even_length(self) -> float:
        """How long it would take if all its tasks took the mean time."""
        return makespan(np.full(len(self.tasks), self.seconds.mean()), self.width)
