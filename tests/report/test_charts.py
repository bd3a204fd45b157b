import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from unskew.report import charts

HOSTILE = "</p>.a['b']\"<&>"  # short: legends cut long names


def over_time(name: str) -> charts.Spec:
    rows = [{"window": i, "series": s, "value": 1.0 + i} for i in range(3) for s in (name, "bound")]
    return charts.over_time(rows, series=[name], bound="bound", width=300)


def slot_loads(name: str) -> charts.Spec:
    rows = [{"rank": i, "slot": i, "series": s, "load": 1.0} for i in range(3) for s in (name, "hash")]
    return charts.slot_loads(rows, series=[name, "hash"], bound=1.2, width=300)


def ranked(name: str) -> charts.Spec:
    rows = [{"name": name, "value": 0.1}, {"name": "hash", "value": 0.0}]
    return charts.ranked(rows, highlight=name, x_title="moved", width=300)


def tradeoff(name: str) -> charts.Spec:
    points = [
        {"name": name, "kind": name, "moved": 0.1, "imbalance": 1.1},
        {"name": "hash", "kind": "whole", "moved": 0.0, "imbalance": 1.5},
        {"name": "hopeless", "kind": "whole", "moved": 0.0, "imbalance": 9.0},
    ]
    front = [{"setting": "a", "moved": m, "imbalance": 1.3 - m} for m in (0.0, 0.1)]
    return charts.tradeoff(points, front, highlight=name, highest=2.0, width=300)


def texts(spec: charts.Spec) -> list[str]:
    picture = ET.fromstring(vl_convert.vegalite_to_svg(spec))
    return ["".join(node.itertext()) for node in picture.iter() if node.tag.endswith("}text")]


@pytest.mark.parametrize("chart", [over_time, slot_loads, ranked, tradeoff])
def test_a_chart_shows_any_name_as_it_is(chart: Callable[[str], charts.Spec]) -> None:
    assert HOSTILE in texts(chart(HOSTILE))


def test_charts_side_by_side_keep_their_titles_and_legends() -> None:
    drawn = texts(charts.side_by_side({"left": over_time("keel"), "right": tradeoff("keel")}))
    assert {"left", "right", "bound", "whole"} <= set(drawn)


def test_points_above_the_highest_are_left_out() -> None:
    drawn = texts(tradeoff("keel"))
    assert "hash" in drawn
    assert "hopeless" not in drawn


def test_windows_are_whole_numbers_on_the_axis() -> None:
    rows = [{"window": i, "series": "keel", "value": 9.5} for i in range(1, 4)]
    drawn = texts(charts.over_time(rows, series=["keel"], width=900))
    assert [text for text in drawn if text in {"1", "2", "3"}] == ["1", "2", "3"]


def test_the_first_series_is_drawn_boldest_even_alone() -> None:
    rows = [{"window": i, "series": "keel", "value": 1.0} for i in range(3)]
    svg = vl_convert.vegalite_to_svg(charts.over_time(rows, series=["keel"], width=300))
    assert 'stroke-width="3.5"' in svg


def test_a_series_that_would_not_be_drawn_is_refused() -> None:
    rows = [{"window": 0, "series": "kip", "value": 1.0}]
    with pytest.raises(ValueError, match="kip"):
        charts.over_time(rows, series=["keel"])


settings = st.lists(
    st.fixed_dictionaries({"moved": st.floats(0, 1), "imbalance": st.floats(1, 3)}), min_size=1, max_size=8
)


@given(settings)
def test_the_front_is_what_no_setting_beats(rows: list[dict[str, Any]]) -> None:
    front = charts.pareto_front(rows)
    for earlier, later in pairwise(front):
        assert earlier["moved"] < later["moved"]
        assert earlier["imbalance"] > later["imbalance"]
    for row in rows:
        assert any(f["moved"] <= row["moved"] and f["imbalance"] <= row["imbalance"] for f in front)


def test_points_on_one_another_share_a_label() -> None:
    placed = charts.place_labels([("keel", 50, 50), ("auto", 50.5, 50), ("kip", 50, 90)], 400)
    assert [label for _, label, _ in placed] == ["keel, auto", "kip"]


def test_labels_keep_clear_of_each_other_and_of_the_edges() -> None:
    points = [("first", 100.0, 50.0), ("second", 120.0, 52.0), ("third", 395.0, 50.0), ("fourth", 1.0, 90.0)]
    boxes = {}
    for (name, x, y), (placed_name, label, side) in zip(
        points, charts.place_labels(points, 400), strict=True
    ):
        assert name == placed_name
        boxes[name] = charts.label_box(label, x, y, side)
    for (l1, t1, r1, b1), (l2, t2, r2, b2) in combinations(boxes.values(), 2):
        assert r1 <= l2 or r2 <= l1 or b1 <= t2 or b2 <= t1
    assert all(left >= 0 and right <= 400 for left, _, right, _ in boxes.values())
