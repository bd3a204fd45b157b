from __future__ import annotations

from typing import Any

from unskew.jobs.progress import SPAN, Progress


def line(batch: int, time: float, records: int = 100, moved: int = 0) -> dict[str, Any]:
    return {
        "batch": batch,
        "time": time,
        "records": records,
        "slots": 4,
        "imbalance": 1.2,
        "bound": 1.05,
        "moved": {"rows": moved},
    }


def test_before_the_first_batch() -> None:
    assert str(Progress(0.0)) == "waiting for the first batch"
    assert Progress(0.0).after([]) == Progress(0.0)


def test_speed_and_the_last_migration() -> None:
    progress = Progress(10.0).after([line(0, 11.0)])
    assert str(progress) == ("batch 0: 100 rows, 4 slots, imbalance 1.20 (at best 1.05), nothing moved yet")
    progress = progress.after([line(1, 12.0, moved=7), line(2, 13.0, 3000)])
    assert progress.next_batch == 3
    assert progress.rate == 1550.0
    assert str(progress) == (
        "batch 2: 3,000 rows, 1,550 rows/s, 4 slots, imbalance 1.20 (at best 1.05), "
        "last migration: 7 keys in batch 1"
    )


def test_the_pause_between_two_runs_is_not_slowness() -> None:
    progress = Progress(1000.0).after([line(0, 1.0), line(1, 2.0, moved=9), line(2, 1001.0), line(3, 1002.0)])
    assert progress.rate == 100.0
    assert progress.moved == (1, 9)


def test_speed_follows_the_last_batches() -> None:
    slow = [line(i, float(i)) for i in range(50)]
    fast = [line(50 + i, 50 + i / 10) for i in range(SPAN)]
    assert round(Progress(0.0).after(slow).after(fast).rate or 0) == 1000
