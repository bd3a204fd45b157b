"""Journals for the watch page, written by the ledger, in the shape that the controller gives its lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unskew.streaming.storage.ledger import LINES_PER_FILE, Ledger

HOSTILE = (
    "</script><script>hacked = 1</script>",
    '"><img src=x onerror="hacked = 1">',
    "<svg/onload=hacked=1>",
    "\x1b[31mred\x07\x00",
    "back\u202ewards\u2028",
    "[bold]marked[/bold]",
    "",
)


def begin(folder: Path, *, checkpoint_id: str = "one", max_slots: int = 8) -> Ledger:
    """A checkpoint that has no batch yet."""
    ledger = Ledger(str(folder), checkpoint_id)
    ledger.write_operator({"checkpoint_id": checkpoint_id, "max_slots": max_slots})
    return ledger


def line(batch: int, **changes: Any) -> dict[str, Any]:
    """The line of a batch: every tenth one moves state."""
    moves = batch % 10 == 3
    return {
        "batch": batch,
        "time": 1.7e9 + batch,
        "records": 1000,
        "slots": 4,
        "version": 1 + (batch + 6) // 10,
        "heavy": 2,
        "loads": [400, 300, 200, 100],
        "imbalance": 1.6 + batch % 7 / 10,
        "bound": 1.2,
        "planned": None,
        "late": 0,
        "state": {
            "rows": 50,
            "bytes": 6000,
            "written": 10,
            "by_slot": [[0, 20], [1, 15], [2, 10], [3, 5]],
            "bytes_by_slot": [[0, 2400], [1, 1800], [2, 1200], [3, 600]],
        },
        "moved": {"rows": 7 * moves, "bytes": 840 * moves, "files": int(moves), "imported": 0},
        "next": None,
        "decision": {"switch": batch % 10 == 2, "reason": f"because of {batch}", "gain": 0.5, "cost": 0.1},
        "top": [["alice", 300.0, 0], ["bob", 200.0, 1]],
        "top_heavy": [True, False],
        "seconds": {"slots": {"handle": 0.1}, "slowest": 0.1, "sink": 0.5, "controller": 0.01},
        **changes,
    }


def hostile_line(batch: int) -> dict[str, Any]:
    """A line whose keys, and even its reason, want to be run."""
    top = [[key, 100.0 - i, i % 4] for i, key in enumerate(HOSTILE)]
    decision = {"switch": True, "reason": HOSTILE[0], "gain": 1.0, "cost": 0.1}
    return line(batch, top=top, top_heavy=[True] * len(top), decision=decision)


def fill(ledger: Ledger, batches: int) -> None:
    """Many lines at once: the ledger writes a file again for each of its lines, which takes its time."""
    for first in range(0, batches, LINES_PER_FILE):
        lines = [
            json.dumps(line(batch)) + "\n" for batch in range(first, min(first + LINES_PER_FILE, batches))
        ]
        ledger.folder.write(f"journal/{first // LINES_PER_FILE:08d}", "".join(lines).encode())
