from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.report.text import inert, key_label


@given(st.text())
def test_inert_text_is_one_printable_line(text: str) -> None:
    assert inert(text).isprintable()
    assert inert(text) == text or not text.isprintable()


@given(st.recursive(st.none() | st.text() | st.binary() | st.floats(), lambda part: st.tuples(part, part)))
def test_a_label_is_short_and_inert(key: object) -> None:
    label = key_label(key, longest=20)
    assert 0 < len(label) <= 20
    assert label.isprintable()


@pytest.mark.parametrize(
    ("key", "label"),
    [
        (None, "null"),
        ("null", '"null"'),
        (" a", '" a"'),
        (date(2013, 1, 2), "2013-01-02"),
        (Decimal("1.50"), "1.50"),
        (float("nan"), "nan"),
        (("UA", None), "(UA, null)"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\u202eev\u2028il", "\\u202eev\\u2028il"),
    ],
)
def test_labels(key: object, label: str) -> None:
    assert key_label(key) == label
