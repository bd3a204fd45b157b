"""`make bench-batch`: the batch operators against stock Spark, side by side in one run.

Each section runs in a process of its own (it needs its own Spark) and may be run alone:
`python -m benchmarks.batch routing`. Warm-up runs are discarded, contenders take turns, answers are checked equal,
and a time is the least of its turns. Measuring and planning count as part of unskew's time.
"""

from __future__ import annotations

from benchmarks.sections import run

SECTIONS = {
    "routing": "batch_shuffle",
    "measure": "batch_shuffle",
    "cpu": "batch_cpu",
    "tasks": "batch_cpu",
    "wait": "batch_wait",
    "text": "batch_cpu",
    "flights": "batch_cpu",
}

if __name__ == "__main__":
    run("batch", SECTIONS)
