"""`make bench-soak`: 2 000 batches with drifting keys, changes of scale and 50 kills (hours).

`python -m benchmarks.stream_soak [BATCHES] [KILLS]`. A child process runs the query and is killed, with its JVM and its
workers, at random batches of the first four fifths; the last fifth is one life without a kill. Every batch's output is
compared with a replay, and memory and files are measured in every batch: they must not grow.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bars import Bar, finish
from benchmarks.stream_spark import Input, session, zipf

KEYS, ROWS, MAX_SLOTS = 20_000, 2_000, 4
DRIFT, SCALE = 10, 25
"""Batches after which other keys are hot, and after which another number of slots is asked for."""

STEADY = 400
"""Batches from which on nothing may grow: Spark and unskew retain a hundred, and look for older files now and then."""

PATIENCE = 300
"""Seconds without a further batch after which the query counts as hung."""


class Outputs:
    """What each batch emitted, as three sums, beside what memory and files came to; a replay overwrites."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "out"
        self.folder.mkdir(exist_ok=True)

    def write(self, batch: int, content: dict[str, Any]) -> None:
        """Store a batch's line, whole or not at all."""
        unready = self.folder / f".{batch}"
        unready.write_text(json.dumps(content))
        unready.rename(self.folder / str(batch))

    def read(self) -> dict[int, dict[str, Any]]:
        """All lines, by batch."""
        paths = [path for path in self.folder.iterdir() if path.name.isdigit()]
        return {int(path.name): json.loads(path.read_text()) for path in paths}


def soak(batches: int, kills: int) -> None:
    """Run the soak, print and store what it measured; exits with 1 if an answer is wrong or something grows."""
    source = Input()
    outputs = Outputs(source.root)
    expected = _fill(source, batches)
    moments = sorted(random.Random(0).sample(range(2, max(4, batches * 4 // 5)), kills))
    started = time.perf_counter()
    ends = [*moments, batches - 1]
    lives = [_live_until(source, last, is_kill=last != batches - 1) for last in ends]
    lines = outputs.read()
    wrong = [batch for batch in range(batches) if lines.get(batch, {}).get("sums") != expected[batch]]
    slots = sorted({line["slots"] for line in lines.values()})
    details = {
        "batches": batches,
        "kills": kills,
        "seconds": round(time.perf_counter() - started),
        "numbers of slots": slots,
        "batches per life": lives,
        "wrong batches": wrong[:20],
        "lines": {batch: line for batch, line in lines.items() if batch % max(1, batches // 100) == 0},
    }
    bars = [Bar("soak: batches whose output differs from a replay", float(len(wrong)), 0.0)]
    if batches >= 2 * STEADY:
        bars += _growth(lines, batches)
    for bar in bars:
        print(bar.line(), flush=True)
    if not wrong:
        shutil.rmtree(source.root)
    finish("stream-soak" if batches >= 2 * STEADY else "stream-soak-small", bars, details)


def _fill(source: Input, batches: int) -> list[list[int]]:
    """Write the input; returns what each batch must emit: its keys, and the sums of their counts and totals."""
    draw = np.random.default_rng(5)
    counts, totals = np.zeros(KEYS, np.int64), np.zeros(KEYS, np.int64)
    expected = []
    names = np.arange(KEYS)
    for batch in range(batches):
        if batch % DRIFT == 0:
            names = draw.permutation(KEYS)
        keys, values = names[zipf(ROWS, KEYS, 1.2, draw)], draw.integers(0, 100, ROWS)
        source.add(keys, values)
        counts += np.bincount(keys, minlength=KEYS)
        totals += np.bincount(keys, values, KEYS).astype(np.int64)
        touched = np.unique(keys)
        expected.append([len(touched), int(counts[touched].sum()), int(totals[touched].sum())])
    return expected


def _live_until(source: Input, last: int, *, is_kill: bool) -> int:
    """Run a child until it has committed a batch, then kill it with all it started; returns its batches."""
    commits = Path(source.checkpoint("soak")) / "commits"

    def committed() -> int:
        return max((int(f.name) for f in commits.glob("*") if f.name.isdigit()), default=-1)

    first, newest, since = committed(), -1, time.monotonic()
    log = (source.root / "log").open("ab")
    with log:
        command = [sys.executable, "-m", "benchmarks.stream_soak", "child", str(source.root)]
        child = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        while newest < last:
            if committed() > newest:
                newest, since = committed(), time.monotonic()
            if child.poll() is not None or time.monotonic() - since > PATIENCE:
                sys.exit(f"the query stopped after batch {newest}: see {source.root / 'log'}")
            time.sleep(0.02)
        if is_kill:
            time.sleep(random.Random(last).random() * 0.5)  # somewhere in one of the next batches
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    print(f"    batches {first + 1} to {committed()}", flush=True)
    return committed() - first


def _growth(lines: dict[int, dict[str, Any]], batches: int) -> list[Bar]:
    """What is measured late against what is measured once the oldest batches are no longer retained."""
    quarter = (batches - STEADY) // 4
    early = [lines[b] for b in range(STEADY, STEADY + quarter)]
    late = [lines[b] for b in range(batches - quarter, batches)]
    bars = []
    for name in ("driver MB", "JVM MB", "workers MB", "files", "files MB", "cached files"):
        before, after = (statistics.median(line[name] for line in part) for part in (early, late))
        bars.append(Bar(f"soak: {name}, at the end / early", after / before, 1.15, unit="×"))
    return bars


def child(root: Path) -> None:
    """Run the query until killed."""
    import unskew

    os.environ["TMPDIR"] = str(root / "tmp")
    (root / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = None
    spark = session("local[2]", {"spark.driver.memory": "1g", "spark.local.dir": str(root / "tmp")})
    source, outputs = Input(root), Outputs(root)
    running: list[Any] = []
    started = threading.Event()

    def sink(df: Any, batch: int) -> None:
        rows = df.toArrow().to_pydict()
        started.wait()
        if batch % SCALE == 0:
            running[0].scale(1 + batch // SCALE % MAX_SLOTS)
        sums = [len(rows["user"]), sum(rows["n"]), sum(rows["total"])]
        slots = running[0].journal()[-1]["slots"] if batch else 0
        outputs.write(batch, {"sums": sums, "slots": slots, **_measured(root)})

    stream = unskew.stream(source.read(spark), "user")
    totals = stream.aggregate(n=unskew.count(), total=unskew.sum("amount"))
    placement = unskew.Placement(max_slots=MAX_SLOTS, buckets=512)
    running.append(totals.start(sink, checkpoint=source.checkpoint("soak"), slots=2, placement=placement))
    started.set()
    running[0].awaitTermination()


def _measured(root: Path) -> dict[str, float]:
    """Memory by kind of process, and the files of the checkpoint without the journal, which is kept for ever."""
    memory: Counter[str] = Counter()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if os.getpgid(int(process.name)) == os.getpgrp() or _is_worker(process):
                    memory[_kind(process)] += int((process / "statm").read_text().split()[1]) * 4096
    checkpoint = root / "checkpoints" / "soak"
    sizes = []
    for folder, _, names in os.walk(checkpoint):
        if not folder.endswith("journal"):
            for name in names:
                with contextlib.suppress(OSError):
                    sizes.append(Path(folder, name).stat().st_size)
    cached = sum(1 for path in (root / "tmp").glob("unskew-*/*/*"))
    return {
        **{f"{kind} MB": round(memory[kind] / 1e6, 1) for kind in ("driver", "JVM", "workers")},
        "files": len(sizes),
        "files MB": round(sum(sizes) / 1e6, 2),
        "cached files": cached,
    }


def _is_worker(process: Path) -> bool:
    """Whether it belongs to this query: Spark's daemon leads a group of its own."""
    parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    with contextlib.suppress(OSError):
        while parent > 1:
            if os.getpgid(parent) == os.getpgrp():
                return True
            parent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def _kind(process: Path) -> str:
    command = (process / "cmdline").read_bytes()
    if b"java" in command.split(b"\0")[0]:
        return "JVM"
    return "workers" if b"pyspark.daemon" in command else "driver"


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(Path(sys.argv[2]))
    else:
        numbers = [int(argument) for argument in sys.argv[1:]]
        soak(*(numbers or [2000]), **({} if len(numbers) > 1 else {"kills": 50}))
