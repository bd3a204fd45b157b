"""Looks at what the user's own jobs have observed, when they have ended, in the background.

`Observation.get` waits for the end of the first action on classic Spark; on Spark Connect it returns nothing until
then, and is asked again. Each observed operator has a daemon thread that waits, which never keeps the process alive.
When the process ends, threads get a moment to receive what the last action observed, and time to save it.
"""

from __future__ import annotations

import atexit
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from unskew.core.addresses import one_line
from unskew.core.histogram import Histogram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unskew.spark.keys import KeyColumns

Review: TypeAlias = Callable[[Sequence[Histogram]], None]

BRIEFLY = 0.2
"""Seconds to wait at the next use for what an action that has just ended observed."""

AT_EXIT = 2.0
"""Seconds that the process waits at its end, at most, if an observed DataFrame had no action yet."""

_SAVING = 60.0
"""Seconds that a review which has begun may take before nobody waits for it any longer."""

_ASK_AGAIN = 0.1

MOST = 64
"""DataFrames that may wait for an action. If a program builds more and never runs them, further ones go unobserved."""

_lock = threading.Lock()
_pending: list[_Watch] = []
_ending = threading.Event()


class _Watch:
    """Waits for the observations of one operator, then has the plan reviewed."""

    def __init__(self, address: str, observed: Sequence[Any], review: Review) -> None:
        self.address = address
        self.observed = observed
        self.review = review
        self.is_reviewing = False
        self.thread = threading.Thread(target=self._run, name=f"unskew review of {address}", daemon=True)

    def _run(self) -> None:
        try:
            figures = [_figures(observed.observation) for observed in self.observed]
            # Spark gives nothing if it could leave the observed rows out of the job
            if all(figures):
                self.is_reviewing = True
                self.review([observed.histogram for observed in self.observed])
        except Exception as error:  # noqa: BLE001  whatever it is, the user's job has done its work
            if self.is_reviewing:
                warnings.warn(f"{self.address}: the plan was not reviewed: {one_line(error)}", stacklevel=1)
        finally:
            with _lock:
                _pending.remove(self)


def _figures(observation: Any) -> Any:
    """What was observed, or nothing if the action failed or the process ends first."""
    from pyspark.sql import Observation

    while True:
        is_last = _ending.is_set()
        figures = observation.get
        # Connect has a class of its own, whose `get` does not wait
        if figures or is_last or isinstance(observation, Observation):
            return figures
        _ending.wait(_ASK_AGAIN)


def observe(
    address: str,
    inputs: Sequence[tuple[DataFrame, KeyColumns]],
    buckets: int,
    review: Review,
    *,
    skips_null: bool,
) -> list[DataFrame] | None:
    """The inputs, observed; `review` gets a histogram of each when their action has ended. None if too many wait."""
    from unskew.spark.observe import observe_keys

    with _lock:
        if len(_pending) >= MOST:
            return None
    observed = [observe_keys(df, keys, buckets, skips_null=skips_null) for df, keys in inputs]
    watch = _Watch(address, observed, review)
    with _lock:
        _pending.append(watch)
    watch.thread.start()
    return [part.df for part in observed]


def settle(address: str | None, patience: float) -> None:
    """Wait up to `patience` seconds for observations (of one plan, or all), and for reviews that have begun."""
    with _lock:
        watches = [watch for watch in _pending if address in (None, watch.address)]
    until = time.monotonic() + patience
    for watch in watches:
        watch.thread.join(max(0.0, until - time.monotonic()))
        if watch.is_reviewing:
            watch.thread.join(_SAVING)


@atexit.register
def _settle_at_exit() -> None:
    _ending.set()
    settle(None, AT_EXIT)
