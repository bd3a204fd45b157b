from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import unskew
from tests.report.html_facts import assert_self_contained, read
from unskew.core.diagnosis import Diagnosis, diagnose
from unskew.core.scheduling import makespan
from unskew.report.diagnosis_page import (
    SERIES,
    diagnosis_figures,
    diagnosis_page,
    heavy_rows,
    planner_rows,
    schedule,
)
from unskew.report.terminal import print_diagnosis

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[bold red]boo[/bold red]",
    "\x1b[31mred\x1b[0m\x07\n\r",
    "\u202eevil",
    "https://evil.example/x.js",
)


@pytest.fixture(scope="module")
def hostile() -> Diagnosis:
    counts = {key: 100 - i for i, key in enumerate(HOSTILE)} | {"x" * 400: 50, "x" * 401: 49}
    return diagnosed(counts, 3, name="<b>key</b>\x1b[31m")


def diagnosed(counts: dict[str, int], slots: int, cores: int | None = None, name: str = "user") -> Diagnosis:
    histogram = replace(unskew.Histogram.from_counts(counts), key_names=(name,))
    return diagnose(histogram, slots, cores=cores, planners=["keel", "pkg"])


def charts_of(page: str) -> list[dict[str, Any]]:
    return [json.loads(data) for data in read(page).data]


def test_the_page_loads_nothing_and_runs_nothing_of_the_data(hostile: Diagnosis) -> None:
    page = read(diagnosis_page(hostile, source="https://evil.example/<b>"))
    assert_self_contained(page)
    assert not {"img", "b", "iframe", "object", "link"} & set(page.tags)
    assert len(page.code) == 2  # the libraries and the page's own script
    assert not any("alert(1)" in code for code in page.code)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page.text)
    assert all(figure.label in page.text for figure in diagnosis_figures(hostile))


def test_keys_that_look_alike_when_cut_stay_apart(hostile: Diagnosis) -> None:
    names = {row["key"] for row in heavy_rows(hostile) if row["key"].startswith("xxx")}
    assert len(names) == 1
    drawn = values(charts_of(diagnosis_page(hostile))[2])
    assert len({row["name"] for row in drawn if "xxx" in row.get("name", "")}) == 2


def test_every_chart_can_be_drawn_and_has_its_table(hostile: Diagnosis) -> None:
    page = diagnosis_page(hostile)
    specs = charts_of(page)
    assert len(specs) == 4
    assert page.count("The figures behind this chart") == 4
    for spec in specs:
        picture = ET.fromstring(vl_convert.vegalite_to_svg({**spec, "width": 600}))
        assert any(node.tag.endswith("}path") for node in picture.iter())


@pytest.mark.parametrize("slots", [1, 2, 60, 300])
def test_every_slot_is_drawn_however_many_there_are(slots: int) -> None:
    diagnosis = diagnosed({f"k{i}": i for i in range(1, 400)}, slots, cores=max(1, slots // 3))
    loads, timeline = charts_of(diagnosis_page(diagnosis))[:2]
    drawn = [row for row in values(loads) if "rank" in row]
    for series in SERIES.values():
        assert {row["slot"] for row in drawn if row["series"] == series} == set(range(slots))
    tasks = [row for row in values(timeline) if "slot" in row]
    assert len(tasks) == 2 * slots
    for planner, series in SERIES.items():
        last = max(row["end"] for row in tasks if row["series"] == series)
        assert last == pytest.approx(diagnosis.verdict(planner).time)
    vl_convert.vegalite_to_svg({**timeline, "width": 600})
    vl_convert.vegalite_to_svg({**loads, "width": 600})


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows behind all layers."""
    return [row for rows in spec["datasets"].values() for row in rows]


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=30).map(np.array),
    st.integers(1, 8),
)
def test_the_timeline_is_the_schedule_that_the_diagnosis_predicts(loads: Any, cores: int) -> None:
    tasks = schedule(loads, cores)
    assert max(end for _, _, end in tasks) == makespan(loads, cores)
    assert [start for _, start, _ in tasks] == sorted(start for _, start, _ in tasks)
    for core in range(cores):
        own = [(start, end) for at, start, end in tasks if at == core]
        assert all(a[1] == b[0] for a, b in pairwise(own))


def test_planners_are_ranked_by_time_and_splitting_is_noted(hostile: Diagnosis) -> None:
    rows = planner_rows(hostile)
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
    assert [row["planner"] for row in rows if "split" in row["note"]] == ["pkg"]


def test_empty_data_gives_a_page_without_charts() -> None:
    page = diagnosis_page(diagnosed({}, 4))
    assert_self_contained(read(page))
    assert not read(page).data
    assert "the data is empty" in page


def test_the_report_is_written_into_a_new_folder(tmp_path: Path) -> None:
    diagnosis = diagnosed({"a": 3, "b": 1}, 2)
    target = unskew.write_report(diagnosis, tmp_path / "new" / "report.html", source="here")
    assert target.read_text("utf-8") == diagnosis_page(diagnosis, source="here")
    assert (
        unskew.write_report(diagnosis, target) == target
    )  # the lazy name stays a function after its first use


def printed(diagnosis: Diagnosis, *, terminal: bool) -> str:
    out = StringIO()
    print_diagnosis(
        diagnosis,
        Console(file=out, width=100, force_terminal=terminal, color_system="standard" if terminal else None),
    )
    return out.getvalue()


def test_hostile_keys_are_inert_in_the_terminal(hostile: Diagnosis) -> None:
    coloured = printed(hostile, terminal=True)
    assert "\x1b[31mred" not in coloured
    assert not re.search(r"[\x07\r\u202e]", coloured)
    plain = printed(hostile, terminal=False)
    assert "\x1b" not in plain
    assert "[bold red]boo[/bold red]" in plain
    assert "\\x1b[31mred" in plain


def test_the_terminal_shows_what_the_page_shows(hostile: Diagnosis) -> None:
    plain = printed(hostile, terminal=False)
    for row in planner_rows(hostile):
        assert re.search(rf"{row['planner']} .*{row['imbalance']:.3f}", plain)
    assert f"{hostile.speedup:.2f} ×" in plain
    assert f"{hostile.bound:.2f} × mean" in plain
