from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from io import StringIO
from pathlib import Path

import pytest
import vl_convert
from rich.console import Console

from tests.eventlog.logs import END, REAL, START, application, submitted, task, uneven_stage, write_log
from tests.report.html_facts import assert_self_contained, read
from unskew.eventlog.findings import LogDiagnosis, diagnose_log
from unskew.report.event_log_page import log_figures, log_page, stage_rows, write_log_report
from unskew.report.event_log_terminal import print_log_diagnosis

HOSTILE = "</script><img src=x onerror=alert(1)>[red]\x1b[31m\u202e https://evil.example/"


@pytest.fixture(scope="module")
def real() -> LogDiagnosis:
    return diagnose_log(REAL)


@pytest.fixture
def hostile(tmp_path: Path) -> LogDiagnosis:
    first = submitted(0, 4, name=HOSTILE)
    return diagnose_log(
        write_log(tmp_path / "app", [START, application(HOSTILE), first, *uneven_stage()[1:], END])
    )


def printed(diagnosis: LogDiagnosis, width: int = 100) -> str:
    out = StringIO()
    print_log_diagnosis(diagnosis, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_the_page_loads_nothing_and_runs_nothing_of_the_log(hostile: LogDiagnosis) -> None:
    page = read(log_page(hostile, source=HOSTILE))
    assert_self_contained(page)
    assert "img" not in page.tags
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page.text)


def test_the_terminal_shows_hostile_names_as_text(hostile: LogDiagnosis) -> None:
    plain = printed(hostile)
    assert "\x1b" not in plain
    assert "[red]\\x1b[31m\\u202e" in plain


def test_every_chart_can_be_drawn_and_has_its_table(real: LogDiagnosis) -> None:
    page = log_page(real)
    specs = [json.loads(data) for data in read(page).data]
    assert len(specs) == page.count("The figures behind this chart") == 2
    for spec in specs:
        picture = ET.fromstring(vl_convert.vegalite_to_svg({**spec, "width": 600}))
        assert any(node.tag.endswith("}path") for node in picture.iter())


def test_page_and_terminal_name_the_stage_its_operator_and_key(real: LogDiagnosis) -> None:
    assert all(figure.label in read(log_page(real)).text for figure in log_figures(real))
    for text in (read(log_page(real)).text, " ".join(printed(real, 120).split())):
        assert "FlatMapGroupsInPandas by user" in text
        assert 'unskew.groupBy(df, "user").applyInPandas(…)' in text
        assert all(row["cause"] in text for row in stage_rows(real))


def test_a_narrow_terminal_cuts_no_figure(real: LogDiagnosis) -> None:
    assert "…" not in printed(real, 80).replace("(…)", "")


def test_of_many_tasks_the_longest_are_drawn(tmp_path: Path) -> None:
    tasks = [task(0, i, 0, 1 + i / 100) for i in range(1000)]
    slowest = task(0, 1000, 0, 60)
    diagnosis = diagnose_log(write_log(tmp_path / "app", [submitted(0, 1001), *tasks, slowest]))
    strips = json.loads(read(log_page(diagnosis)).data[1])
    drawn = [row["task"] for rows in strips["datasets"].values() for row in rows if "task" in row]
    assert len(drawn) <= 200
    assert {1000, 999, 998, 0} <= set(drawn)


def test_a_log_without_skew_gives_a_page_without_charts(tmp_path: Path) -> None:
    diagnosis = diagnose_log(write_log(tmp_path / "app", [START, application("calm")]))
    page = write_log_report(diagnosis, tmp_path / "new" / "page.html").read_text("utf-8")
    assert_self_contained(read(page))
    assert not read(page).data
    assert "No task has finished" in page
    assert "No task has finished" in printed(diagnosis)
