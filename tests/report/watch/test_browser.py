"""The page in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.watch.browser import Browser
from tests.report.watch.journals import HOSTILE, begin, fill, hostile_line, line
from unskew.report.page import write
from unskew.report.watch.journal import JournalReader
from unskew.report.watch.page import exported_page
from unskew.report.watch.server import WatchServer

DRAWN = "document.querySelectorAll('.chart > svg').length === 5"
CHARTS = ("loads", "state", "imbalance", "seconds", "slots")


def text(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))


def table(browser: Browser, holder: str) -> list[list[str]]:
    rows = f"[...document.querySelectorAll('#{holder} tbody tr')]"
    return list(browser.evaluate(f"{rows}.map((row) => [...row.cells].map((cell) => cell.textContent))"))


def test_the_page_waits_for_batches_and_follows_them(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    ledger = begin(tmp_path)
    browser.open(server.address)
    browser.wait("document.querySelector('#status').dataset.word === 'waiting'")
    ledger.write_line(line(0))
    browser.wait(DRAWN)
    assert "batch0" in text(browser, "#cards")
    for batch in (1, 2, 3):
        ledger.write_line(line(batch, imbalance=1.5))
        browser.wait(f"document.querySelector('#cards .value').textContent === '{batch}'")
    assert "1.500" in text(browser, "#cards")
    assert "7 keys, 840 B" in text(browser, "#cards")
    assert browser.evaluate("document.querySelectorAll('#imbalance .migration').length") == 1
    assert [row[:3] for row in table(browser, "decisions")] == [
        ["3", "stay", "because of 3"],
        ["2", "change", "because of 2"],
        ["1", "stay", "because of 1"],
        ["0", "stay", "because of 0"],
    ]
    assert table(browser, "keys") == [
        ["alice", "0", "30.0 %", "", "300", "by its own row"],
        ["bob", "1", "20.0 %", "", "200", "with its bucket"],
    ]


def test_a_replayed_batch_is_shown_once(browser: Browser, server: WatchServer, tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    fill(ledger, 3)
    browser.open(server.address)
    browser.wait(DRAWN)
    ledger.write_line(line(2, records=77))
    browser.wait("document.querySelector('#cards').textContent.includes('records77')")
    assert [row[0] for row in table(browser, "decisions")] == ["2", "1", "0"]


def test_hostile_keys_are_text_and_nothing_else(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    begin(tmp_path).write_line(hostile_line(0))
    browser.open(server.address)
    browser.wait(DRAWN)
    keys = [row[0] for row in table(browser, "keys")]
    assert keys[:3] == list(HOSTILE[:3])
    assert keys[3:] == ["\\x1b[31mred\\x07\\x00", '"back\\u202ewards\\u2028"', HOSTILE[5], '""']
    assert table(browser, "decisions")[0][2] == HOSTILE[0]
    assert browser.evaluate("typeof hacked") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img, #keys svg').length") == 0


def test_ten_thousand_batches_are_a_small_page(browser: Browser, server: WatchServer, tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    fill(ledger, 10_000)
    server.reader.news()
    browser.open(server.address)
    browser.wait(DRAWN)
    ledger.write_line(line(10_000))
    browser.wait("document.querySelector('#cards .value').textContent === '10,000'")
    assert browser.evaluate("document.querySelectorAll('*').length") < 5000
    assert browser.evaluate("document.querySelector('#imbalance .tone-1').getAttribute('d').length") < 40_000
    assert len(table(browser, "decisions")) == 20
    browser.evaluate("[...document.querySelectorAll('#decisions button')].at(-1).click()")
    assert table(browser, "decisions")[0][0] == "9,980"
    browser.evaluate("document.querySelector('#switches').click()")
    browser.wait("document.querySelector('#decisions .pager').textContent.includes('of 1,000')")


def test_a_peak_among_many_batches_is_not_lost(browser: Browser, server: WatchServer, tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    fill(ledger, 5000)
    for batch in range(5000, 5010):
        ledger.write_line(line(batch, imbalance=9.0 if batch == 5004 else 1.5))
    browser.open(server.address)
    browser.wait(DRAWN)
    points = "document.querySelector('#imbalance .tone-1').getAttribute('d').split(/[ML]/).slice(1)"
    heights = browser.evaluate(f"{points}.map((point) => Number(point.split(',')[1]))")
    assert min(heights) < sorted(heights)[1] - 50


@pytest.mark.parametrize("chart", CHARTS)
def test_the_table_behind_each_chart_opens(
    browser: Browser, server: WatchServer, tmp_path: Path, chart: str
) -> None:
    fill(begin(tmp_path), 5)
    browser.open(server.address)
    browser.wait(DRAWN)
    assert table(browser, f"{chart}-table") == []
    browser.evaluate(f"document.querySelector('#{chart}-table summary').click()")
    browser.wait(f"document.querySelectorAll('#{chart}-table tbody tr').length > 0")
    first = table(browser, f"{chart}-table")[0]
    assert first[0] == ("0" if chart in ("loads", "state") else "4")
    assert "–" not in first[:3]


def test_a_finger_or_mouse_on_a_chart_tells_the_batch(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    fill(begin(tmp_path), 11)
    browser.open(server.address)
    browser.wait(DRAWN)
    browser.evaluate("document.querySelector('#seconds').scrollIntoView()")
    box = browser.evaluate("document.querySelector('#seconds svg').getBoundingClientRect().toJSON()")
    middle = {"x": (box["left"] + 56 + box["right"] - 10) / 2, "y": box["top"] + 50}
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", **middle)
    browser.wait("document.querySelector('#seconds .readout').textContent !== ''")
    assert text(browser, "#seconds .readout") == "batch 5: 510 ms, 1,000 records"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_a_phone_and_a_desk_by_day_and_night(
    browser: Browser, server: WatchServer, tmp_path: Path, width: int, scheme: str
) -> None:
    begin(tmp_path).write_line(hostile_line(0))
    browser.look(width=width, height=800, scheme=scheme)
    browser.open(server.address)
    browser.wait(DRAWN)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    picture = browser.screenshot(whole=True)
    assert picture.startswith(b"\x89PNG")
    colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(15, 19, 24)") == (scheme == "dark")


def test_lines_that_lack_figures_are_shown_with_dashes(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    begin(tmp_path).write_line({"batch": 0})
    browser.open(server.address)
    browser.wait(DRAWN)
    assert "imbalance–" in text(browser, "#cards")


def test_the_page_says_when_nobody_serves_it_any_more(
    chromium: Browser, server: WatchServer, tmp_path: Path
) -> None:
    fill(begin(tmp_path), 3)
    chromium.open(server.address)
    chromium.wait(DRAWN)
    assert "stopped" in text(chromium, "#status")
    server.shutdown()
    server.server_close()
    chromium.wait("document.querySelector('#status').dataset.word === 'lost'")
    assert "unskew watch has stopped" in text(chromium, "#status")


def test_an_exported_run_opens_from_a_file(browser: Browser, tmp_path: Path) -> None:
    fill(begin(tmp_path / "c"), 120)
    path = write(tmp_path / "run.html", exported_page(JournalReader(str(tmp_path / "c"))))
    browser.open(path.as_uri())
    browser.wait(DRAWN)
    assert "batch119" in text(browser, "#cards")
    assert "Exported 20" in text(browser, "footer")
