"""Whether an operator may start a Spark job of its own, to measure.

Pipelines that only declare DataFrames (Spark Declarative Pipelines, lazy frameworks) forbid such jobs.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame

SETTING = "spark.unskew.measure"
"""Set to false in a Spark session, this forbids measuring for its DataFrames."""


class NoMeasure:
    """Measuring is off in this process, for good or until the end of a `with` block; what `no_measure` returns."""

    def __init__(self) -> None:
        with _lock:
            _in_force.append(self)

    def __enter__(self) -> NoMeasure:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _lock:
            _in_force.remove(self)

    def __repr__(self) -> str:
        return "NoMeasure(on)" if self in _in_force else "NoMeasure(off)"


_lock = threading.Lock()
_in_force: list[NoMeasure] = []
_warned: set[str] = set()


def no_measure() -> NoMeasure:
    """Let no operator start a Spark job to measure: in a `with` block, or from now on if called alone.

    Operators then use the plan they are given or a kept one. What has none runs as plain Spark, with one warning for
    each kind of operator. The setting `spark.unskew.measure=false` of a session does the same for its DataFrames.
    Calls that are there to measure (`unskew.measure`, `unskew.diagnose`, `unskew.plan_chain`) still do.

    >>> with no_measure() as off:
    ...     print(off)
    NoMeasure(on)
    """
    return NoMeasure()


def measuring_allowed(df: DataFrame) -> bool:
    """Whether an operator on this DataFrame may measure it."""
    if _in_force:
        return False
    return str(df.sparkSession.conf.get(SETTING, "true")).strip().lower() != "false"


def warn_plain(operator: str) -> None:
    """Say once for each kind of operator that it runs as plain Spark."""
    warn_once(
        operator,
        f"unskew.{operator} runs as plain Spark: measuring is off (unskew.no_measure or {SETTING}=false) and no plan "
        "was given: pass plan=",
    )


def warn_once(subject: str, message: str) -> None:
    """A warning that a process gives once for each subject."""
    with _lock:
        if subject in _warned:
            return
        _warned.add(subject)
    warnings.warn(message, stacklevel=2)
