"""Disks that are full or read-only: a clean stop, and the query goes on when there is space again."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.outcome import Outcome
from tests.faults.process import Job
from tests.faults.replay import Place
from unskew.streaming.failpoints import NAMES


def full(root: Path) -> Iterator[Outcome]:
    """As if the disk were full, at every failpoint in turn."""
    place = Place.at(root / "totals", "totals")
    names = [name for name in NAMES if name != "begun"]
    place.grow(len(names) + 3)
    points = [f"{name}@{i + 1}=full" for i, name in enumerate(names)]
    with Job(root / "home", *points) as job:
        for name in names:
            started = time.perf_counter()
            answer = job.run(place.request())
            title, spent = f"no space left at {name}", time.perf_counter() - started
            if answer is None or answer["ok"] or f"failpoint {name}@" not in answer["error"]:
                yield Outcome(title, "error", spent, f"expected a clean stop: {answer}")
            else:
                yield Outcome.of(title, place.wrong(complete=False), spent)
        yield _goes_on(job, place, "to its end, after no space was left at each failpoint")


def really_full(root: Path) -> Iterator[Outcome]:
    """A small file system fills up."""
    place = Place.at(root / "totals", "totals")
    place.grow(14)
    with mounted(place.checkpoint, "1m") as is_mounted, Job(root / "home") as job:
        if not is_mounted:
            yield Outcome("full file system", "skip", 0.0, "this user may not mount one")
            return
        started = time.perf_counter()
        answer = job.run(place.request())
        title, spent = "a full file system under the checkpoint", time.perf_counter() - started
        if answer is None or answer["ok"]:
            yield Outcome(title, "error", spent, f"expected a clean stop: {answer}")
        else:
            yield Outcome.of(title, place.wrong(complete=False), spent, answer["error"][:150])
        _remount(place.checkpoint, "size=256m")
        yield _goes_on(job, place, "after there was space again")


def read_only(root: Path) -> Iterator[Outcome]:
    """A checkpoint that becomes read-only while the query runs, and still is when the query restarts."""
    place = Place.at(root / "totals", "totals")
    place.grow(10)
    with mounted(place.checkpoint, "256m") as is_mounted, Job(root / "home") as job:
        if not is_mounted:
            yield Outcome("read-only checkpoint", "skip", 0.0, "this user may not mount one")
            return
        job.send(place.request())
        end = time.monotonic() + 120
        while len(place.committed()) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        while not _remount(place.checkpoint, "ro") and time.monotonic() < end:
            time.sleep(0.01)  # busy while a file is open for writing
        for title in ("checkpoint becomes read-only", "started on a read-only checkpoint"):
            started = time.perf_counter()
            answer = job.answer() if "becomes" in title else job.run(place.request())
            spent = time.perf_counter() - started
            if answer is None or answer["ok"] or "ead-only" not in answer["error"]:
                yield Outcome(title, "error", spent, f"expected a clean stop: {answer}")
            else:
                yield Outcome.of(title, place.wrong(complete=False), spent)
        _remount(place.checkpoint, "rw")
        yield _goes_on(job, place, "after it was writable again")


def _goes_on(job: Job, place: Place, title: str) -> Outcome:
    started = time.perf_counter()
    answer = job.run(place.request())
    spent = time.perf_counter() - started
    if answer is None or not answer["ok"]:
        return Outcome(title, "error", spent, f"{answer}", fault=False)
    return Outcome.of(title, place.wrong(), spent, fault=False)


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[bool]:
    """Mount a small file system on the folder; yields whether this user may."""
    folder.mkdir()
    is_mounted = _mount("-t", "tmpfs", "-o", f"size={size}", "unskew-faults", str(folder))
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _remount(folder: Path, option: str) -> bool:
    return _mount("-o", f"remount,{option}", str(folder))


def _mount(*arguments: str) -> bool:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
