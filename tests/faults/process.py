"""A job (`tests.faults.job`) from the outside: start it, tell it what to run, kill it with all that is its."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.faults.job import MARK

PATIENCE = 240
"""Seconds after which a job that says nothing hangs."""

ROOT = Path(__file__).parents[2]


JAVA = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def wait(until: Callable[[], bool], seconds: float = 120) -> None:
    """Until something is so."""
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            raise TimeoutError("the query does not get on")
        time.sleep(0.05)


class Job:
    """A running job; its own files are in `home`, where the failpoints that have happened are kept, too."""

    archive: Path | None = None
    """The classes that a JVM loads, as it can map them into memory: it starts in half the time."""

    def __init__(
        self,
        home: Path,
        *failpoints: str,
        master: str = "local[2]",
        settings: Iterable[str] = (),
        java: str = "",
        env: dict[str, str] | None = None,
    ) -> None:
        self.home = home
        for folder in ("failed", "tmp"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        ours = {
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(home / "tmp"),
            "UNSKEW_FAILED": str(home / "failed"),
            "UNSKEW_FAILPOINT": ",".join(failpoints),
        }
        if self.archive is not None and not java:
            java = f"-XX:SharedArchiveFile={self.archive} -Xlog:disable -Xlog:all=off"
        own = [f"spark.local.dir={home / 'tmp'}", f"{JAVA} {java}"]
        with (home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.job", master, *own, *settings],
                cwd=home,
                env={**os.environ, **ours, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Job:
        if self.answer() is None:
            raise RuntimeError(f"the job did not start: {(self.home / 'log').read_text()[-2000:]}")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def run(self, told: dict[str, Any]) -> dict[str, Any] | None:
        """Have it run a query; None if it died."""
        self.tell(told)
        return self.answer()

    def tell(self, told: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(told) + "\n")
            self.process.stdin.flush()

    def answer(self, timeout: float = PATIENCE) -> dict[str, Any] | None:
        """Its next answer; None if it died."""
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(
                f"the job said nothing for {timeout} s; its log is {self.home / 'log'}"
            ) from None

    def kill(self, *, group: bool = True) -> None:
        """By SIGKILL: the whole group, or only the Python process."""
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        for rest in (self.home / "tmp").iterdir():
            if not rest.name.startswith("unskew-"):  # the runs on the local disk outlive a process
                shutil.rmtree(rest, ignore_errors=True)

    def end(self, until: Callable[[], bool]) -> None:
        """Let it end by itself, and its JVM do what it still has to do."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while not until() and time.monotonic() < end:
            time.sleep(0.2)

    def happened(self) -> set[str]:
        """The failpoints that have happened."""
        return {f.name for f in (self.home / "failed").iterdir()}

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                if line.startswith(MARK):
                    self._answers.put(json.loads(line.removeprefix(MARK)))
        self._answers.put(None)
