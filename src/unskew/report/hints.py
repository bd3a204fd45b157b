"""`attach`: a line after a job of the session that was skewed; it asks Spark's web interface, and runs no job."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from unskew.eventlog.findings import LEAST_SECONDS, Finding, finding_of
from unskew.eventlog.rest import RestApplication
from unskew.eventlog.rest_client import RestClient
from unskew.report.text import inert, key_label

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_FINDINGS = 1000
_FAILURES = 5
"""Questions without an answer after which the application is taken to have ended."""


class Attached:
    """Watches a session until `stop`; `findings` are the stages that lost time so far, in the order they ended.

    Guards the session: it only reads Spark's web interface, in a daemon thread, and an error there ends the watching,
    never the job. A kind of finding at the same place is printed once.
    """

    def __init__(
        self,
        address: str,
        application_id: str | None = None,
        *,
        every: float = 2.0,
        out: Callable[[str], None] | None = None,
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int | float) or not 0.1 <= every <= 3600:
            raise ValueError(
                f"every is how many seconds to wait between two looks, 0.1 to 3600, not {every!r}"
            )
        self._application = RestApplication(
            address,
            application_id,
            client=RestClient(address, timeout=10),
            shortest=LEAST_SECONDS,
            running=False,
        )
        self._address = address
        self._every = every
        self._out = out or _print
        self._findings: list[Finding] = []
        self._judged: set[tuple[int, int]] = set()
        self._hinted: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._look(hint=False)  # what ended before is not news
        self._findings.clear()
        self._thread = threading.Thread(target=self._watch, name="unskew hints", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped.is_set() else "watching"
        return f"Attached({inert(self._address)}, {state}, {len(self._findings)} findings)"

    def __enter__(self) -> Attached:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The stages that lost time since this was attached."""
        return tuple(self._findings)

    def stop(self) -> None:
        """Look once more, then stop; may be called again."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._thread.join(30)
        with suppress(ValueError):  # the application may have ended, and its web interface with it
            self._look()

    def _watch(self) -> None:
        failures = 0
        while failures < _FAILURES and not self._stopped.wait(self._every):
            try:
                self._look()
                failures = 0
            except ValueError:
                failures += 1

    def _look(self, *, hint: bool = True) -> None:
        """Judge the stages that have ended since the last time."""
        with self._lock:
            for stage in self._application.stages(lambda *place: place not in self._judged):
                self._judged.add((stage.number, stage.attempt))
                finding = finding_of(stage)
                if finding is None:
                    continue
                self._findings = [*self._findings[1 - MOST_FINDINGS :], finding]
                place = (str(finding.cause), str(stage.shuffle), stage.name)
                if hint and place not in self._hinted:
                    self._hinted.add(place)
                    self._out(hint_of(finding))


def attach(
    spark: SparkSession,
    *,
    address: str | None = None,
    every: float = 2.0,
    out: Callable[[str], None] | None = None,
) -> Attached:
    """Print one line after every job of this session whose tasks were unequal: which key, and which call would help.

    It reads the session's own web interface (`spark.ui.enabled`, on by default) every few seconds in a background
    thread, and starts no job. `address` is that of the web interface where the session does not know it, as on Spark
    Connect; `out` gets the lines instead of standard error. `stop()` on what is returned ends it; `findings` holds all.

    >>> if spark.sparkContext.uiWebUrl:  # as it is unless spark.ui.enabled is false
    ...     hints = unskew.attach(spark)
    """
    if address is not None:
        return Attached(address, every=every, out=out)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ValueError(
            "a Spark Connect session does not know the driver's web interface: pass address='http://host:4040'"
        )
    context = spark.sparkContext
    if context.uiWebUrl is None:
        raise ValueError(
            "this session has no web interface: start Spark with spark.ui.enabled=true, or pass address="
        )
    return Attached(context.uiWebUrl, context.applicationId, every=every, out=out)


def hint_of(finding: Finding) -> str:
    """A finding on one line."""
    stage = finding.stage
    where = f" in {key_label(str(stage.shuffle), 80)}" if stage.shuffle is not None else ""
    cost = f", up to {finding.saved:.1f} s of {stage.length:.1f} s lost" if finding.saved else ""
    return inert(f"unskew: stage {stage.label}: {finding.cause}{where}{cost}. {finding.advice.text}")


def _print(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
