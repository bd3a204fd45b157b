from __future__ import annotations

import json
import re
from pathlib import Path

from tests.report.html_facts import assert_self_contained, read
from tests.report.watch.journals import HOSTILE, begin, fill, hostile_line, line
from unskew.report.charts import NEUTRAL, PALETTE
from unskew.report.page import resource
from unskew.report.watch.journal import JournalReader
from unskew.report.watch.page import exported_page, live_page


def test_an_exported_run_is_one_file_with_all_figures(tmp_path: Path) -> None:
    fill(begin(tmp_path), 130)
    page = read(exported_page(JournalReader(str(tmp_path))))
    assert_self_contained(page)
    (data,) = map(json.loads, page.data)
    assert data["checkpoint"] == str(tmp_path)
    columns = data["columns"]["batch"]
    batches = [dict(zip(columns, row, strict=True)) for row in data["news"]["batches"]]
    assert [batch["batch"] for batch in batches] == list(range(130))
    assert batches[3]["moved_rows"] == 7
    assert batches[129]["reason"] == "because of 129"
    assert "connect-src 'none'" in page.policy


def test_hostile_text_changes_nothing_but_the_data(tmp_path: Path) -> None:
    pages = []
    for name, batch_line in (
        ("harmless", line(0)),
        ("</script><script>hacked = 1</script>", hostile_line(0)),
    ):
        folder = tmp_path / name
        begin(folder).write_line(batch_line)
        pages.append(read(exported_page(JournalReader(str(folder)))))
    harmless, hostile = pages
    assert hostile.tags == harmless.tags
    assert hostile.attributes == harmless.attributes
    assert hostile.code == harmless.code
    assert hostile.text == harmless.text
    keys = [key for key, *_ in json.loads(hostile.data[0])["news"]["latest"]["top"]]
    assert keys[0] == HOSTILE[0]
    assert keys[3:5] == ["\\x1b[31mred\\x07\\x00", '"back\\u202ewards\\u2028"']


def test_the_live_page_holds_no_batch_and_is_small(tmp_path: Path) -> None:
    fill(begin(tmp_path), 1000)
    page = live_page(JournalReader(str(tmp_path)))
    assert json.loads(read(page).data[0])["news"] is None
    assert len(page) < 50_000


def test_ten_thousand_batches_are_a_small_file(tmp_path: Path) -> None:
    fill(begin(tmp_path), 10_000)
    assert len(exported_page(JournalReader(str(tmp_path)))) < 3_000_000


def test_every_chart_has_a_table_behind_it(tmp_path: Path) -> None:
    begin(tmp_path)
    names = {
        value for name, value in read(live_page(JournalReader(str(tmp_path)))).attributes if name == "id"
    }
    for chart in ("loads", "state", "imbalance", "seconds", "slots"):
        assert {chart, f"{chart}-table"} <= names


def test_the_colours_are_those_of_all_reports() -> None:
    used = set(re.findall(r"#[0-9A-F]{6}", resource("watch.css", "unskew.report.watch")))
    assert used <= {*PALETTE, NEUTRAL}
    assert len(used) > 4
