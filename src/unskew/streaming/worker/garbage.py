"""What the garbage collector of a Python worker need not look at again."""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze_once() -> None:
    """Exempt what this process has imported from garbage collection; does something at the first call only.

    Spark collects garbage after every task of a worker that it keeps. With pandas and Arrow imported, that takes 20 to
    35 ms of CPU, more than a small batch takes; what is frozen here is left out. An object that is no longer referenced
    is still freed at once, unless it is part of a cycle: of what exists at the first call, cycles stay in memory.
    """
    gc.collect()
    gc.freeze()
