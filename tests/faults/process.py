"""A job (`tests.faults.job`) from the outside: start it, send it requests, kill it and all its child processes."""

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
"""Seconds without an answer after which a job counts as hung."""

ROOT = Path(__file__).parents[2]

JAVA = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def wait(until: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            raise TimeoutError(f"the query made no progress for {seconds} s")
        time.sleep(0.05)


class Job:
    """A running job; its files are in `home`, and so is the record of failpoints that have happened."""

    archive: Path | None = None
    """The classes that a JVM loads, in a form that it can map into memory: it starts in half the time."""

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
        variables = {
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(home / "tmp"),
            "UNSKEW_FAILED": str(home / "failed"),
            "UNSKEW_FAILPOINT": ",".join(failpoints),
        }
        if self.archive is not None and not java:
            java = f"-XX:SharedArchiveFile={self.archive} -Xlog:disable -Xlog:all=off"
        own_settings = [f"spark.local.dir={home / 'tmp'}", f"{JAVA} {java}"]
        with (home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.job", master, *own_settings, *settings],
                cwd=home,
                env={**os.environ, **variables, **(env or {})},
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

    def run(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Run a query; returns the answer, or None if the job died."""
        self.send(request)
        return self.answer()

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()

    def answer(self, timeout: float = PATIENCE) -> dict[str, Any] | None:
        """Its next answer; None if it died."""
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(
                f"the job did not answer for {timeout} s; its log is {self.home / 'log'}"
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
            if not rest.name.startswith("unskew-"):  # the cached runs on the local disk outlive a process
                shutil.rmtree(rest, ignore_errors=True)

    def end(self, until: Callable[[], bool]) -> None:
        """Let the job exit, and wait until its JVM has finished its work."""
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
        with self.process.stdout as output:
            for line in output:
                if line.startswith(MARK):
                    self._answers.put(json.loads(line.removeprefix(MARK)))
        self._answers.put(None)
