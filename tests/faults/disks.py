"""Disks that are full or read-only: a clean stop, and the query goes on when there is room again."""

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
            said = job.run(place.told())
            told, spent = f"no space left at {name}", time.perf_counter() - started
            if said is None or said["ok"] or f"failpoint {name}@" not in said["error"]:
                yield Outcome(told, "error", spent, f"expected a clean stop: {said}")
            else:
                yield Outcome.of(told, place.wrong(complete=False), spent)
        yield _goes_on(job, place, "the end, after no space was left at each")


def really_full(root: Path) -> Iterator[Outcome]:
    """A small file system fills up."""
    place = Place.at(root / "totals", "totals")
    place.grow(14)
    with mounted(place.checkpoint, "1m") as mount, Job(root / "home") as job:
        if not mount:
            yield Outcome("full file system", "skip", 0.0, "may not mount one here")
            return
        started = time.perf_counter()
        said = job.run(place.told())
        told, spent = "a full file system under the checkpoint", time.perf_counter() - started
        if said is None or said["ok"]:
            yield Outcome(told, "error", spent, f"expected a clean stop: {said}")
        else:
            yield Outcome.of(told, place.wrong(complete=False), spent, said["error"][:150])
        _remount(place.checkpoint, "size=256m")
        yield _goes_on(job, place, "after there was room again")


def read_only(root: Path) -> Iterator[Outcome]:
    """A checkpoint that becomes read-only while the query runs, and is when it starts again."""
    place = Place.at(root / "totals", "totals")
    place.grow(10)
    with mounted(place.checkpoint, "256m") as mount, Job(root / "home") as job:
        if not mount:
            yield Outcome("read-only checkpoint", "skip", 0.0, "may not mount one here")
            return
        job.tell(place.told())
        end = time.monotonic() + 120
        while len(place.committed()) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        while not _remount(place.checkpoint, "ro") and time.monotonic() < end:
            time.sleep(0.01)  # busy while a file is open for writing
        for told in ("checkpoint becomes read-only", "started on a read-only checkpoint"):
            started = time.perf_counter()
            said = job.answer() if "becomes" in told else job.run(place.told())
            spent = time.perf_counter() - started
            if said is None or said["ok"] or "ead-only" not in said["error"]:
                yield Outcome(told, "error", spent, f"expected a clean stop: {said}")
            else:
                yield Outcome.of(told, place.wrong(complete=False), spent)
        _remount(place.checkpoint, "rw")
        yield _goes_on(job, place, "after it was writable again")


def _goes_on(job: Job, place: Place, told: str) -> Outcome:
    started = time.perf_counter()
    said = job.run(place.told())
    spent = time.perf_counter() - started
    if said is None or not said["ok"]:
        return Outcome(told, "error", spent, f"{said}", fault=False)
    return Outcome.of(told, place.wrong(), spent, fault=False)


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[bool]:
    """A small file system of its own on the folder, where this user may mount one."""
    folder.mkdir()
    done = _mount("-t", "tmpfs", "-o", f"size={size}", "unskew-faults", str(folder))
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _remount(folder: Path, option: str) -> bool:
    return _mount("-o", f"remount,{option}", str(folder))


def _mount(*arguments: str) -> bool:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
