"""What a worker has imported is not searched for garbage after every task."""

from __future__ import annotations

import subprocess
import sys

CHECK = """
import gc
import unskew.streaming.worker.packing
from unskew.streaming.worker.garbage import freeze_once
freeze_once()
frozen = gc.get_freeze_count()
assert frozen > 10_000, frozen
assert len(gc.get_objects()) < frozen / 10
more = [[] for _ in range(20_000)]
freeze_once()
assert gc.get_freeze_count() == frozen, "only the first call freezes"
"""


def test_imports_are_frozen_once() -> None:
    subprocess.run([sys.executable, "-c", CHECK], check=True)
