"""`make bench-batch`: the batch operators against stock Spark, side by side in one run.

Each section runs in its own process, since it needs its own Spark, and may be run alone:
`python -m benchmarks.batch routing`. Warm-up runs are discarded, contenders take turns, and a time is the shortest of
all turns. Measuring and planning count towards unskew's time.
"""

from __future__ import annotations

from benchmarks.sections import run

SECTIONS = {
    "routing": "batch_shuffle",
    "measure": "batch_shuffle",
    "cpu": "batch_cpu",
    "tasks": "batch_cpu",
    "wait": "batch_wait",
    "join": "batch_join",
    "text": "batch_cpu",
    "flights": "batch_cpu",
}

if __name__ == "__main__":
    run("batch", SECTIONS)
