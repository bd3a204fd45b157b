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

DRAWN = "document.querySelectorAll('.chart:not(.lanes) > svg').length === 5"
BEYOND = """[...document.querySelectorAll('#lanes text, #lanes rect')].filter((node) => {
  const box = node.getBoundingClientRect(), holder = document.querySelector('#lanes').getBoundingClientRect();
  return box.left < holder.left - 1 || box.right > holder.right + 1;
}).map((node) => node.textContent)"""
"""What sticks out of the picture of slots."""
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
        ["alice", "0", "30.0 %", "", "300", "by its own row", "–"],
        ["bob", "1", "20.0 %", "", "200", "with its bucket", "–"],
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
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_it_fits_a_phone_and_a_desk_by_day_and_night(
    browser: Browser, server: WatchServer, tmp_path: Path, width: int, scheme: str
) -> None:
    begin(tmp_path).write_line(hostile_line(0))
    browser.look(width=width, height=800, scheme=scheme)
    browser.open(server.address)
    browser.wait(DRAWN)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(BEYOND) == []
    picture = browser.screenshot(whole=True)
    assert picture.startswith(b"\x89PNG")
    colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(15, 19, 24)") == (scheme == "dark")


def test_the_picture_shows_which_slot_has_which_keys_and_what_moved(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    ledger = begin(tmp_path)
    ledger.write_line(line(0))
    ledger.write_line(line(1, top=[["alice", 300.0, 2], ["bob", 100.0, 1]]))
    browser.open(server.address)
    browser.wait(DRAWN)
    names = "[...document.querySelectorAll('#lanes .name')].map((node) => node.textContent)"
    assert browser.evaluate(names) == ["bob", "alice ← 0"]
    assert browser.evaluate("document.querySelectorAll('#lanes .part.came').length") == 1
    assert text(browser, "#moves") == "batch 1: alice, from slot 0 to slot 2"
    label = "document.querySelector('#lanes svg').getAttribute('aria-label')"
    assert browser.evaluate(label) == "Hot keys by slot. slot 1: bob; slot 2: alice"
    assert [row[6] for row in table(browser, "keys")] == ["slot 0, batch 1", "–"]


def test_many_slots_are_a_picture_of_the_fullest(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    loads = [100 + slot for slot in range(500)]
    begin(tmp_path, max_slots=500).write_line(line(0, slots=500, loads=loads))
    browser.open(server.address)
    browser.wait(DRAWN)
    assert text(browser, "#more-slots") == "The 24 fullest of 500 slots."
    assert browser.evaluate("document.querySelectorAll('#lanes .rest').length") == 24


def test_hostile_keys_are_text_in_the_picture_and_the_list_of_moves(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    ledger = begin(tmp_path)
    ledger.write_line(hostile_line(0))
    moved = hostile_line(1)
    ledger.write_line({**moved, "top": [[key, n, (slot + 1) % 4] for key, n, slot in moved["top"]]})
    browser.open(server.address)
    browser.wait(DRAWN)
    assert HOSTILE[0] in text(browser, "#moves")
    assert HOSTILE[1] in text(browser, "#lanes")
    assert browser.evaluate("typeof hacked") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img, #moves *:not(li), #lanes script').length") == 0


def press(browser: Browser, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)


def test_a_chart_is_read_with_the_arrow_keys(browser: Browser, server: WatchServer, tmp_path: Path) -> None:
    ledger = begin(tmp_path)
    fill(ledger, 11)
    browser.open(server.address)
    browser.wait(DRAWN)
    browser.evaluate("document.querySelector('#seconds').focus()")
    for key, batch in (("ArrowLeft", 10), ("ArrowLeft", 9), ("Home", 0), ("ArrowRight", 1), ("End", 10)):
        press(browser, key)
        assert text(browser, "#seconds .readout").startswith(f"batch {batch}: 510 ms")
    assert browser.evaluate("document.querySelector('#seconds').getAttribute('aria-valuetext')").startswith(
        "batch 10: 510 ms"
    )
    press(browser, "Home")
    ledger.write_line(line(11))
    browser.wait("document.querySelector('#cards .value').textContent === '11'")
    assert text(browser, "#seconds .readout").startswith("batch 0: ")  # news do not take the reader away
    press(browser, "Tab")
    assert text(browser, "#seconds .readout") == ""


def test_everything_that_takes_the_focus_has_a_role_and_a_name(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    fill(begin(tmp_path), 30)
    browser.open(server.address)
    browser.wait(DRAWN)
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    parts = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored")
        and any(p["name"] == "focusable" and p["value"]["value"] for p in node.get("properties", []))
    ]
    assert [part for part in parts if not part[1] or part[0] in ("generic", "none")] == []
    assert ("slider", "Seconds of each batch") in parts
    assert ("combobox", "Batches shown") in parts
    assert ("button", "Next rows: Decisions") in parts
    assert ("region", "Heavy keys and their slots") in parts
    names = {
        node.get("name", {}).get("value") for node in nodes if node.get("role", {}).get("value") == "image"
    }
    assert "Hot keys by slot. slot 0: alice; slot 1: bob" in names


def test_the_state_of_the_query_is_announced_once(
    browser: Browser, server: WatchServer, tmp_path: Path
) -> None:
    ledger = begin(tmp_path)
    browser.open(server.address)
    browser.wait("document.querySelector('#status').dataset.word === 'waiting'")
    assert text(browser, "#announcement") == "no batch yet, and no query runs"
    ledger.write_line(line(0))
    browser.wait("document.querySelector('#announcement').textContent.startsWith('stopped')")
    assert browser.evaluate("document.querySelector('#announcement').getAttribute('role')") == "status"


def test_words_stand_out_from_their_background(browser: Browser, server: WatchServer, tmp_path: Path) -> None:
    fill(begin(tmp_path), 5)
    for scheme in ("light", "dark"):
        browser.look(scheme=scheme)
        browser.open(server.address)
        browser.wait(DRAWN)
        # Web Content Accessibility Guidelines: 4.5 for text
        assert browser.evaluate(FAINT) == []


FAINT = """(() => {
  const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const faint = [];
  const words = 'p, h1, h2, h3, h4, td, th, li, label, button:not(:disabled), .label, .value, .note, .chart text';
  for (const node of document.querySelectorAll(words)) {
    if (!node.textContent.trim() || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(node.closest('svg') ? style.fill : style.color), light(behind(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(node.textContent.slice(0, 40));
  }
  return faint;
})()"""


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
