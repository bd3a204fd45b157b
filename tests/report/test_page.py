import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.html_facts import assert_self_contained, read
from unskew.report import charts
from unskew.report.page import (
    Card,
    Cards,
    Chart,
    Column,
    Section,
    Table,
    Text,
    embedded_json,
    render,
    write,
)

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><svg/onload=alert(1)>",
    "line\u2028separator\u2029 & &lt; \x00 'quotes' ${x} \\",
    "javascript:alert(1)",
    "{{7*7}} {0} %s",
)


def a_chart(name: str = "key", title: str = "A chart") -> Chart:
    rows = [{"window": i, "series": name, "value": 1.0 + i} for i in range(3)]
    columns = [Column("series", name), Column("value", "load", "{:.1f} × mean")]
    return Chart(title, charts.over_time(rows, series=[name]), Table(columns, rows), caption=name)


def a_page(text: str) -> str:
    table = Table([Column("key", text), Column("load", "load", "{:.1%}")], [{"key": text, "load": 0.25}])
    parts = [Text(text), Cards([Card(text, text, text)]), table, a_chart(text, title=text)]
    return render(text, text, [Section(text, parts)], footer=text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_never_run(text: str) -> None:
    page, harmless = read(a_page(text)), read(a_page("harmless"))
    assert page.tags == harmless.tags  # no element more, none less
    assert [name for name, _ in page.attributes] == [name for name, _ in harmless.attributes]
    assert page.code == harmless.code
    assert page.text.count(text) == harmless.text.count("harmless")
    assert_self_contained(page)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_keys_reach_the_chart_unchanged(text: str) -> None:
    (spec,) = read(a_page(text)).data
    (rows,) = json.loads(spec)["datasets"].values()
    assert {row["series"] for row in rows} == {text}


@given(
    st.recursive(st.text() | st.floats() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_embedded_json_keeps_its_value_and_cannot_leave_its_element(value: object) -> None:
    text = embedded_json(value)
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert json.loads(text) == without_odd_floats(value)


def without_odd_floats(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_odd_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_odd_floats(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def test_numpy_figures_can_be_embedded() -> None:
    assert json.loads(embedded_json({"a": np.float64(0.5), "b": np.arange(2)})) == {"a": 0.5, "b": [0, 1]}


def test_the_libraries_are_in_the_page_once_and_only_if_there_is_a_chart() -> None:
    single, double = (read(render("t", "l", [Section("s", [a_chart() for _ in range(n)])])) for n in (1, 2))
    assert len(double.code) == len(single.code) == 2
    assert (len(single.data), len(double.data)) == (1, 2)
    without = read(render("t", "l", [Section("s", [Text("no chart")])]))
    assert without.scripts == []
    assert_self_contained(without)


def test_every_chart_has_its_own_place_and_its_figures() -> None:
    page = read(render("t", "l", [Section("s", [a_chart(), a_chart()]), Section("u", [a_chart()])]))
    places = [value for name, value in page.attributes if name == "data-chart"]
    assert len(set(places)) == 3
    assert places == [value for name, value in page.attributes if name == "id"]
    assert page.tags.count("details") == 3
    assert page.text.count("2.0 × mean") == 3


def test_charts_are_not_allowed_to_evaluate_text() -> None:
    page = read(a_page("key"))
    assert "unsafe-eval" not in page.policy
    assert "'unsafe-inline'" not in page.policy.partition("script-src")[2]
    assert "ast: true" in page.code[1]  # Vega then interprets; without it no chart would be drawn


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_a_figure_that_does_not_exist_is_a_dash(missing: float | None) -> None:
    assert Column("load", "load", "{:.1f} ms").show({"load": missing}) == "–"
    assert Column("load", "load", "{:.1f} ms").show({}) == "–"


def test_a_page_is_written_as_utf8_into_a_new_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "new" / "page.html", render("lone \ud800 surrogate", "é", []))
    assert "lone ? surrogate" in path.read_text("utf-8")
    assert "é" in path.read_text("utf-8")
