"""Running a job until it ends or is told to stop."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.jobs.progress import Progress

if TYPE_CHECKING:
    from types import FrameType

    from unskew.streaming.driver.query import LiveQuery

LOOK = 0.5
"""Seconds between two looks at what runs: how long a signal may have to wait."""


@dataclass
class Stop:
    """Whether the process was asked to end, and by which signal."""

    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """0, or what shells say of a process that a signal ended: 130 for SIGINT, 143 for SIGTERM."""
        return 0 if self.signal is None else 128 + self.signal

    def __str__(self) -> str:
        return "done" if self.signal is None else f"stopped by {signal.Signals(self.signal).name}"

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """The handler of the signal. It only takes a note: a call to the JVM cannot be left half-way."""
        self.signal = number


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """SIGTERM and SIGINT are noted instead of ending the process; PySpark's own handler is back afterwards."""
    stop = Stop()
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(query: LiveQuery, operators: int, stop: Stop, tell: Callable[[str], None], every: float) -> str:
    """Wait for a stream to end, or end it when asked to; tells how it goes `every` few seconds, returns how it went."""
    known = [Progress(time.time())] * operators
    told = time.monotonic()
    try:
        while not query.awaitTermination(LOOK) and stop.signal is None:
            if time.monotonic() - told >= every:
                known = _read(query, known)
                tell(_line(known))
                told = time.monotonic()
    finally:
        query.stop()
    return _line(_read(query, known))


def finish(work: Callable[[], Any], cancel: Callable[[], Any], stop: Stop) -> bool:
    """Do the work of a batch job; False if it was cancelled because the process was asked to end."""
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(work)
        while stop.signal is None:
            try:
                job.result(LOOK)
                return True
            except TimeoutError:
                if job.done():
                    raise  # it is the work's own
        while not job.done():  # what it starts after the first call must end, too
            cancel()
            time.sleep(LOOK)
    return False


def _read(query: LiveQuery, known: list[Progress]) -> list[Progress]:
    return [one.after(query.journal(i, since=one.next_batch)) for i, one in enumerate(known)]


def _line(known: list[Progress]) -> str:
    return "; then ".join(map(str, known))
