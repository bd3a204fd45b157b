"""What a notebook shows is inert, whatever the keys are."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import unskew
from unskew.core import diagnosis
from unskew.core.html import columns, fragment

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\x1b[31m\u202eb",
    "&lt;",
    "x" * 10_000,
    "",
]

TAGS = {
    *["div", "strong", "table", "caption", "tr", "th", "td", "svg", "rect", "line", "figure", "figcaption"]
}


class Facts(HTMLParser):
    """The tags of a fragment, its attributes, its text; open tags must be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def histogram() -> unskew.Histogram:
    return unskew.Histogram.from_counts({key: 100 + i for i, key in enumerate(HOSTILE)}, buckets=64)


def values(histogram: unskew.Histogram) -> list[object]:
    return [histogram, unskew.plan(histogram, 4), diagnosis.diagnose(histogram, 4)]


def test_hostile_keys_are_text(histogram: unskew.Histogram) -> None:
    for value in values(histogram):
        html = value._repr_html_()  # type: ignore[attr-defined]
        page = Facts(html)
        assert page.tags <= TAGS
        assert not any(name.startswith("on") or name in ("href", "src") for name in page.attributes)
        assert "\x1b" not in html
        assert "\u202e" not in html
        assert len(html) < 30_000
    keys = Facts(histogram._repr_html_()).text
    assert "<script>alert(1)</script>" in keys
    assert "&lt;" in keys


def test_the_figures_are_there(histogram: unskew.Histogram) -> None:
    plan = unskew.plan(histogram, 4)
    assert f"{plan.imbalance:.3f}" in Facts(plan._repr_html_()).text
    judged = diagnosis.diagnose(histogram, 4)
    assert judged.advice in Facts(judged._repr_html_()).text
    assert Facts(judged._repr_html_()).tags >= {"svg", "rect", "line"}


def test_ten_thousand_slots_are_still_a_small_picture() -> None:
    picture = columns("Load", [1.0] * 9999 + [50.0], 1.0, "the mean")
    assert picture.count("<rect") <= 240
    assert "#D55E00" in picture, "the fullest slot is not lost"
    Facts(fragment("nothing", [], columns("Load", [], 0.0, "the mean")))
    Facts(unskew.Histogram.empty(buckets=16)._repr_html_())
