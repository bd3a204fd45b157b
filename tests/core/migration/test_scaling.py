"""How many slots a stream should have."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.migration.scaling import LoadRange, Usage, Utilisation


def usage(records: float = 0.0, busy: float = 0.0) -> Usage:
    return Usage(records, busy, 1.0)


@given(st.integers(1, 50), st.integers(1, 50), st.floats(0, 1e6), st.floats(0, 1e3), st.floats(1, 1e4))
def test_the_mean_load_ends_up_in_the_range_if_it_can(
    now: int, most: int, records: float, lower: float, width: float
) -> None:
    rule = LoadRange(lower, lower + width)
    now = min(now, most)
    slots = rule.slots(now, most, [usage(1), usage(records)])
    assert 1 <= slots <= most
    if lower <= records / now <= rule.upper:
        assert slots == now
    elif slots < most:
        assert records / slots <= (rule.lower + rule.upper) / 2 + 1e-9
    # it sticks to what it chose, unless no number of slots is within the range
    if rule.lower <= records / slots <= rule.upper:
        assert rule.slots(slots, most, [usage(records)]) == slots


def test_a_load_that_grows_or_shrinks_changes_the_number_of_slots() -> None:
    rule = LoadRange(100, 300)
    assert rule.slots(4, 10, []) == 4
    assert [rule.slots(4, 10, [usage(n)]) for n in (300, 400, 1200, 1201, 9000, 0)] == [2, 4, 4, 7, 10, 1]


def test_slots_are_busy_about_the_target_of_the_time() -> None:
    rule = Utilisation(0.5, interval=10, patience=1)
    busy = (9.0, 5.0, 10.1, 21.0, 1000.0, 0.0)
    assert [rule.slots(2, 8, [usage(busy=b)]) for b in busy] == [2, 1, 3, 5, 8, 1]


def test_one_odd_batch_scales_nothing() -> None:
    rule = Utilisation(0.5, interval=10, patience=3)
    calm, long = usage(busy=9.0), usage(busy=30.0)
    assert rule.slots(2, 8, [long, long]) == 2, "too few batches to tell"
    assert rule.slots(2, 8, [calm, calm, long]) == 2
    assert rule.slots(2, 8, [long, calm, long]) == 2
    assert rule.slots(2, 8, [calm, long, long, long]) == 6
    assert rule.slots(2, 8, [long, usage(busy=1.0), long]) == 2


@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.lists(st.floats(0, 1e4), max_size=6),
    st.floats(0.05, 1.0),
    st.integers(1, 4),
)
def test_the_number_of_slots_is_possible_and_stays(
    now: int, most: int, busy: list[float], target: float, patience: int
) -> None:
    now = min(now, most)
    rule = Utilisation(target, 10.0, patience)
    slots = rule.slots(now, most, [usage(busy=b) for b in busy])
    assert 1 <= slots <= most
    if slots != now and max(busy[-patience:]) == min(busy[-patience:]):
        assert rule.slots(slots, most, [usage(busy=b) for b in busy]) == slots


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (LoadRange, {"lower": 3, "upper": 3}, "from lower to a higher upper"),
        (LoadRange, {"lower": -1, "upper": 3}, "from lower to a higher upper"),
        (LoadRange, {"lower": 1, "upper": math.inf}, "from lower to a higher upper"),
        (LoadRange, {"lower": math.nan, "upper": 3}, "from lower to a higher upper"),
        (Utilisation, {"target": 0.0}, "target is a share"),
        (Utilisation, {"target": math.nan}, "target is a share"),
        (Utilisation, {"interval": 0}, "interval is a number of seconds"),
        (Utilisation, {"interval": math.inf}, "interval is a number of seconds"),
        (Utilisation, {"patience": 0}, "patience is a whole number"),
        (Utilisation, {"patience": True}, "patience is a whole number"),
        (Utilisation, {"patience": 1.5}, "patience is a whole number"),
    ],
)
def test_nonsense_is_refused(rule: type, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule(**options)
