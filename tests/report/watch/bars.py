"""How fast the live page has to be, and how to tell on a machine that may be busy with something else."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.report.watch.browser import Browser

FIRST_PAINT = 1.0
"""Seconds from asking for the page until something of it can be seen."""

UPDATE = 2.0
"""Seconds from a line in the journal until the page shows its batch."""

REDRAW = 0.2
"""Seconds of a processor to draw ten thousand batches anew: a fifth of the time between two questions."""

FAIR = 3
"""Fair attempts at a bar: one that succeeds is enough."""

SHARE = 0.5
"""The part of a processor that a process must get, before and after, for an attempt to be fair."""

PATIENCE = 60.0
"""Seconds to wait for fair attempts."""

_NOTED = """
window.shown = {};
addEventListener("DOMContentLoaded", () => {
  const cards = document.getElementById("cards");
  if (!cards) return;
  const noted = new Set();
  const painted = (then) => requestAnimationFrame(() => requestAnimationFrame(then));
  new MutationObserver(() => {
    const batch = cards.querySelector(".value").textContent.replaceAll(",", "");
    if (noted.has(batch)) return;
    noted.add(batch);
    painted(() => { shown[batch] = (performance.timeOrigin + performance.now()) / 1000; });
  }).observe(cards, { childList: true });
});
"""


@contextmanager
def watching(checkpoint: str, *options: str) -> Iterator[str]:
    """`unskew watch` in a process of its own, as users run it; the address of its page."""
    command = [sys.executable, "-m", "unskew", "watch", checkpoint, "--no-open", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
            assert address is not None
            yield address[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@contextmanager
def watching_in(browser: Browser, checkpoint: str, *options: str) -> Iterator[None]:
    """The page of `unskew watch`, open until the end and not longer than it is served."""
    note_batches(browser)
    with watching(checkpoint, *options) as address:
        try:
            browser.open(address)
            yield
        finally:
            browser.open("about:blank")


def note_batches(browser: Browser) -> None:
    """Have the pages opened from now on note when a batch was first painted, for `shown`."""
    browser.before_every_page(_NOTED)


def shown(browser: Browser, batch: int) -> float:
    """When the page first showed a batch, by the clock; waits for it."""
    browser.wait(f"shown[{batch}] !== undefined", 120)
    return float(browser.evaluate(f"shown[{batch}]"))


def within(bar: float, attempt: Callable[[], float]) -> float:
    """The seconds of the first attempt within the bar; a failure if there is none among the `FAIR` ones.

    An attempt is fair if this machine lets a process work before and after it. One that is not says nothing of the
    page, and where there are too few fair ones the test is skipped.
    """
    missed, fair = [], 0
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        before = _share()
        took = attempt()
        if took < bar:
            return took
        share = min(before, _share())
        missed.append(f"{took:.2f} s with {share:.0%} of a processor")
        fair += share >= SHARE
        assert fair < FAIR, f"not within {bar} s in {FAIR} fair attempts: {', '.join(missed)}"
    pytest.skip(f"this machine has no time for a browser: {', '.join(missed)}")


def _share(work: float = 0.1) -> float:
    """The part of a processor that this process gets when it wants all of one for a moment."""
    started, until = time.perf_counter(), time.process_time() + work
    while time.process_time() < until:
        pass
    return work / (time.perf_counter() - started)
