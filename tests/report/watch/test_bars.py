"""How fast the page is, in a real browser and served by `unskew watch` itself."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator

import pytest

from tests.report.watch.bars import FIRST_PAINT, REDRAW, UPDATE, note_batches, shown, watching, within
from tests.report.watch.browser import Browser
from tests.report.watch.journals import begin, fill, line
from unskew.streaming.storage.ledger import Ledger

pytestmark = pytest.mark.skipif(
    "UNSKEW_TEST_ALL" not in os.environ, reason="measures times: in make test-all"
)

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


class Page:
    """The open page of a journal, to which batches can be added."""

    def __init__(self, browser: Browser, address: str, ledger: Ledger, batches: int) -> None:
        self.browser, self.address, self.ledger, self.batches = browser, address, ledger, batches

    def open(self) -> None:
        self.browser.open("about:blank")
        self.browser.open(self.address)
        self.browser.wait(f"{PAINT} > 0")

    def first_paint(self) -> float:
        """Seconds until something of the page, opened anew, was painted."""
        self.open()
        return float(self.browser.evaluate(PAINT)) / 1000

    def drawn(self) -> float:
        """Seconds until the page, opened anew, showed all batches."""
        self.open()
        return shown(self.browser, self.batches - 1) - float(
            self.browser.evaluate("performance.timeOrigin / 1000")
        )

    def followed(self) -> float:
        """Seconds from a new line in the journal until its batch was painted."""
        self.ledger.write_line(line(self.batches, time=time.time()))
        written = time.time()
        self.batches += 1
        return shown(self.browser, self.batches - 1) - written


@pytest.fixture(scope="module", params=[100, 10_000])
def journal(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Ledger, int]]:
    folder = tmp_path_factory.mktemp("checkpoint")
    ledger = begin(folder)
    fill(ledger, request.param)
    with watching(str(folder)) as address:
        yield address, ledger, request.param


@pytest.fixture
def page(browser: Browser, journal: tuple[str, Ledger, int]) -> Page:
    note_batches(browser)
    address, ledger, least = journal
    batches = ledger.lines(least - 1)[-1]["batch"] + 1
    opened = Page(browser, address, ledger, batches)
    opened.open()
    shown(browser, batches - 1)
    return opened


def test_the_first_paint(page: Page) -> None:
    assert within(FIRST_PAINT, page.first_paint) > 0


def test_all_batches_are_drawn_as_soon_as_a_new_one(page: Page) -> None:
    assert within(UPDATE, page.drawn) > 0


def test_a_batch_is_shown_soon_after_its_line(page: Page) -> None:
    for _ in range(3):
        within(UPDATE, page.followed)


def test_a_new_batch_costs_the_page_little(page: Page) -> None:
    costs = []
    for _ in range(3):
        before = page.browser.busy()
        page.followed()
        costs.append(page.browser.busy() - before)
    assert statistics.median(costs) < REDRAW
