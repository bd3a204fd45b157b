"""The local Spark of the demo, whose notices go to a file, and the tasks of what it has just run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unskew.eventlog.rest import RestApplication
from unskew.eventlog.stages import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 5.0
"""Seconds until Spark's web interface shows the tasks of a job that has ended; it takes a few tenths."""


def start(cores: int, log: Path) -> SparkSession:
    """Local Spark that runs this many tasks at once, however many cores the machine has: the tasks only wait.

    Java inherits its output from this process, and Python workers inherit it from Java: both write to `log`.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "true",  # the tasks that are drawn are read there
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
    }
    with _output_to(log):
        builder = SparkSession.builder.master(f"local[{cores}]").appName("unskew demo")
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Spark with these settings, and without them afterwards."""
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(name)


class Tasks:
    """The tasks of the longest stage since this was made, read from Spark's own web interface."""

    def __init__(self, spark: SparkSession) -> None:
        address = spark.sparkContext.uiWebUrl
        if address is None:
            raise RuntimeError("Spark has no web interface here, so its tasks cannot be drawn")
        self._address = address
        self._earlier: set[tuple[int, int]] = set()
        self._stages(self._note)

    def longest_stage(self) -> Stage:
        """The stage that took longest, once all its tasks have ended."""
        end = time.monotonic() + _PATIENCE
        while True:
            done = [stage for stage in self._stages(lambda *place: place not in self._earlier) if stage.tasks]
            whole = done and all(len(stage.tasks) == stage.expected for stage in done)
            if whole or time.monotonic() > end:
                if not done:
                    raise RuntimeError("Spark's web interface shows no task of this job")
                return max(done, key=lambda stage: stage.longest.seconds)
            time.sleep(0.1)

    def _note(self, number: int, attempt: int) -> bool:
        """Remember a stage that ended before; its tasks are not needed."""
        self._earlier.add((number, attempt))
        return False

    def _stages(self, wanted: Callable[[int, int], bool]) -> list[Stage]:
        return list(RestApplication(self._address).stages(wanted))


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """What this process and those it starts print goes to `log`; those keep it for good."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
