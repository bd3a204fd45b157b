"""Running a job until it ends or a signal stops it."""

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

POLL_SECONDS = 0.5
"""How often a running job is checked, and so how long a signal may have to wait."""


@dataclass
class Stop:
    """Whether a signal has asked the process to end, and which."""

    signal: int | None = None

    @property
    def exit_code(self) -> int:
        """0, or what shells report for a process that a signal ended: 130 for SIGINT, 143 for SIGTERM."""
        return 0 if self.signal is None else 128 + self.signal

    def __str__(self) -> str:
        return "done" if self.signal is None else f"stopped by {signal.Signals(self.signal).name}"

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """The signal handler. It only takes note: a call to the JVM cannot be abandoned half-way."""
        self.signal = number


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Note SIGTERM and SIGINT instead of ending the process; afterwards PySpark's own handlers are back."""
    stop = Stop()
    handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def follow(query: LiveQuery, operators: int, stop: Stop, report: Callable[[str], None], every: float) -> str:
    """Wait until a stream ends, or stop it on a signal; reports progress `every` few seconds, and returns the last."""
    progress = [Progress(time.time())] * operators
    reported = time.monotonic()
    try:
        while not query.awaitTermination(POLL_SECONDS) and stop.signal is None:
            if time.monotonic() - reported >= every:
                progress = _updated(progress, query)
                report(_line(progress))
                reported = time.monotonic()
    finally:
        query.stop()
    return _line(_updated(progress, query))


def finish(work: Callable[[], Any], cancel: Callable[[], Any], stop: Stop) -> bool:
    """Do the work of a batch job; False if a signal stopped it and it was cancelled."""
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(work)
        while stop.signal is None:
            try:
                job.result(POLL_SECONDS)
                return True
            except TimeoutError:
                if job.done():
                    raise  # the work itself raised it
        # a Spark job that the work starts after the first call must be cancelled, too
        while not job.done():
            cancel()
            time.sleep(POLL_SECONDS)
    return False


def _updated(progress: list[Progress], query: LiveQuery) -> list[Progress]:
    """The progress of each operator after what the journal has added."""
    return [
        operator.after(query.journal(number, since=operator.next_batch))
        for number, operator in enumerate(progress)
    ]


def _line(progress: list[Progress]) -> str:
    return "; then ".join(map(str, progress))
