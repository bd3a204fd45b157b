"""`make bench-stream`: the live operator against Spark's own stateful operators, side by side in one run.

Each section runs in its own process and may be run alone: `python -m benchmarks.stream speed`. Times are medians of
the batches after a warm-up, as Spark reports them (`batchDuration`), and answers are checked.
"""

from __future__ import annotations

from benchmarks.sections import run

SECTIONS = {
    "speed": "stream_speed",
    "large": "stream_speed",
    "few": "stream_small",
    "empty": "stream_small",
    "moving": "stream_moving",
    "steady": "stream_moving",
    "balance": "stream_balance",
    "waiting": "stream_balance",
    "guo": "stream_balance",
}

if __name__ == "__main__":
    run("stream", SECTIONS)
