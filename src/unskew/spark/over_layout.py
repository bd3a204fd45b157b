"""Where the hot keys of a window are cut: from a sample of order values to pieces, and to what each piece has to see.

A piece is a range of a key's rows. It is extended to both sides by the rows that its functions look at: `lag` and ROWS
frames by a number of rows, RANGE frames by a distance. All bounds of all pieces are places in the order, and between
two neighbouring places is an interval:

    places       b₁      c₁   e₀     b₂   c₂
    intervals  0     1      2     3     4     5
    piece 0    own   own    sees            c: where a new piece begins
    piece 1          sees   own   own   own   …     b, e: how far pieces see beyond that

So the interval of a row says which pieces get it, and what is known of intervals is known of all that lies before and
after a piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key, partial

import numpy as np

from unskew.core.histogram import Floats, Histogram, sum_by
from unskew.core.routing import RoutingTable
from unskew.core.splitting.pieces import CutKeys, Piece, cut_keys, hot_keys
from unskew.spark.over_order import OrderColumn, Values, compare
from unskew.spark.sampling import KeySample

MOST_COPIED = 0.1
"""Rows that may be copied to neighbouring pieces, as a share of all rows."""

_TIED = 0.1
"""If one value of the first order columns is more than this share of a mean slot, the next one is compared, too."""


@dataclass(frozen=True)
class Reach:
    """How far functions look back and ahead: in rows, and in distance by the order column."""

    rows_before: int = 0
    rows_after: int = 0
    range_before: int = 0
    range_after: int = 0

    def __bool__(self) -> bool:
        return any((self.rows_before, self.rows_after, self.range_before, self.range_after))

    def __or__(self, other: Reach) -> Reach:
        return Reach(
            max(self.rows_before, other.rows_before),
            max(self.rows_after, other.rows_after),
            max(self.range_before, other.range_before),
            max(self.range_after, other.range_after),
        )


@dataclass(frozen=True)
class OrderedSample:
    """What a sample shows of one key: its different order values in order, and the rows and load of each.

    `spread` is the variance of `rows`, `most` the number of rows that one sampled row stands for at most.
    """

    values: list[Values]
    load: Floats
    rows: Floats
    spread: Floats
    most: Floats

    def back(self, start: int, rows: int) -> int | None:
        """An order value so far before number `start` that `rows` rows are in between; None for all before."""
        return self._enough(slice(start - 1, None, -1) if start else slice(0, 0), rows, start, -1)

    def ahead(self, end: int, rows: int) -> int | None:
        """The same behind number `end`; the value itself is not included."""
        return self._enough(slice(end, None), rows, end, 1)

    def _enough(self, along: slice, rows: int, origin: int, step: int) -> int | None:
        # Certain to eight standard deviations, and twenty sampled rows more where the sample is thin.
        total, spread = np.cumsum(self.rows[along]), np.cumsum(self.spread[along])
        thin = np.maximum.accumulate(self.most[along]) if len(total) else total
        certain = total - 8.0 * np.sqrt(spread) - np.where(spread > 0.0, 20.0 * thin, 0.0)
        enough = np.flatnonzero(certain >= rows)
        place = origin + step * (int(enough[0]) + 1) if len(enough) else -1
        return place if 0 < place < len(self.values) else None


@dataclass(frozen=True, eq=False)
class KeyLayout:
    """The places of one hot key, and the intervals that are before its first place, between places, and so on."""

    places: list[Values]
    first_interval: int
    least: Values
    greatest: Values


@dataclass(frozen=True, eq=False)
class Layout:
    """All pieces of all hot keys.

    `targets` has for each interval the pieces that get its rows, first the one that owns them, and `siblings` all
    pieces of its key. Piece p is in slot `slot_of[p]` and sees intervals `low[p]` to `high[p]` - 1; `is_cut_below` and
    `is_cut_above` say whether its key may have other rows before and after these. `copied` is the predicted share of
    rows that are copied.
    """

    cut: CutKeys
    order: Sequence[OrderColumn]
    keys: list[KeyLayout]
    targets: list[list[int]]
    siblings: list[list[int]]
    slot_of: list[int]
    low: list[int]
    high: list[int]
    is_cut_below: list[bool]
    is_cut_above: list[bool]
    copied: float

    @property
    def slots(self) -> int:
        """N."""
        return self.cut.slots

    @property
    def table(self) -> RoutingTable:
        """The table in which slot N + i is hot key i."""
        return self.cut.table


def make_layout(
    histogram: Histogram, slots: int, sample: KeySample, order: Sequence[OrderColumn], reach: Reach
) -> Layout | None:
    """The pieces of all keys that have to be cut; None if no key is hot or none can be cut."""
    rows = hot_keys(histogram, slots).tolist()
    mean = histogram.total / slots
    samples = [_ordered(sample, histogram.hashes[row], order, mean) for row in rows]
    known = [(row, each) for row, each in zip(rows, samples, strict=True) if each is not None]
    if not known:
        return None
    cut = cut_keys(histogram, slots, [row for row, _ in known], [each.load for _, each in known])
    if cut is None:
        return None
    by_row = dict(known)
    return _with_reach(cut, order, [by_row[row] for row in cut.hot], reach, histogram.records)


def _ordered(
    sample: KeySample, key_hash: int, order: Sequence[OrderColumn], mean: float
) -> OrderedSample | None:
    """The sampled order values of one key, by as many order columns as it takes to tell its rows apart.

    Behind a column whose constants are shortened no other is compared: among rows that begin alike, the next column
    does not decide their order.
    """
    mine = np.flatnonzero(sample.hashes[0] == key_hash)
    if not len(mine) or sample.more is None:
        return None
    stands_for = sample.stands_for[mine]
    load = stands_for * sample.load[mine]
    if not load.sum() > 0.0:
        return None
    codes: list[np.ndarray] = []
    constants = []
    for i, each in enumerate(order):
        values = sample.more.column(i).combine_chunks().take(mine)
        codes.append(each.codes(values))
        constants.append(each.constants(values))
        rows, first, group = np.unique(
            np.stack(codes, axis=1), axis=0, return_index=True, return_inverse=True
        )
        group = group.reshape(-1)
        loads = sum_by(group, load, len(rows))
        if loads.max() <= _TIED * mean or each.is_shortened(constants[-1]):
            break
    most = np.zeros(len(rows))
    np.maximum.at(most, group, stands_for)
    return OrderedSample(
        [tuple(column[row] for column in constants) for row in first.tolist()],
        loads,
        sum_by(group, stands_for, len(rows)),
        sum_by(group, stands_for * (stands_for - 1.0), len(rows)),
        most,
    )


def _with_reach(
    cut: CutKeys, order: Sequence[OrderColumn], samples: Sequence[OrderedSample], reach: Reach, records: float
) -> Layout:
    layout = Layout(cut, order, [], [], [], [], [], [], [], [], 0.0)
    copied = 0.0
    for key, sample in enumerate(samples):
        pieces = [piece for piece in cut.pieces if piece.key == key]
        spans = [_span(sample, order, piece, reach) for piece in pieces]
        cuts = [sample.values[piece.start] for piece in pieces[1:]]
        bounds = [bound for span in spans for bound in span if bound is not None]
        places = _sorted(order, [*cuts, *bounds])
        first = len(layout.targets)
        own = [0, *(_index(order, places, place) + 1 for place in cuts), len(places) + 1]
        numbers = range(len(layout.slot_of), len(layout.slot_of) + len(pieces))
        for piece, (below, above) in zip(pieces, spans, strict=True):
            layout.slot_of.append(piece.slot)
            layout.low.append(first + (0 if below is None else _index(order, places, below) + 1))
            layout.high.append(
                first + (len(places) + 1 if above is None else _index(order, places, above) + 1)
            )
            layout.is_cut_below.append(below is not None)
            layout.is_cut_above.append(above is not None)
            copied += _rows_between(sample, order, below, above) - sample.rows[piece.start : piece.end].sum()
        for i in range(len(places) + 1):
            owner = next(n for n in range(len(pieces)) if own[n] <= i < own[n + 1])
            others = [
                number
                for n, number in enumerate(numbers)
                if n != owner and layout.low[number] <= first + i < layout.high[number]
            ]
            layout.targets.append([numbers[owner], *others])
            layout.siblings.append(list(numbers))
        layout.keys.append(KeyLayout(places, first, sample.values[0], sample.values[-1]))
    object.__setattr__(layout, "copied", max(copied, 0.0) / max(records, 1.0))
    return layout


def _span(
    sample: OrderedSample, order: Sequence[OrderColumn], piece: Piece, reach: Reach
) -> tuple[Values | None, Values | None]:
    """Where what a piece sees begins and ends; None if it sees all rows of its key on that side."""
    last = len(sample.values)
    below = above = None
    if piece.start:
        begins = [sample.values[piece.start]]
        if reach.rows_before:
            place = sample.back(piece.start, reach.rows_before)
            begins += [() if place is None else sample.values[place]]
        if reach.range_before:
            begins += [_moved(order[0], begins[0], -reach.range_before) or ()]
        below = _sorted(order, begins)[0] or None
    if piece.end < last:
        ends = [sample.values[piece.end]]
        endless = False
        if reach.rows_after:
            place = sample.ahead(piece.end, reach.rows_after)
            endless = place is None
            ends += [] if place is None else [sample.values[place]]
        if reach.range_after:
            moved = _moved(order[0], ends[0], reach.range_after)
            endless = endless or moved is None
            ends += [] if moved is None else [moved]
        above = None if endless else _sorted(order, ends)[-1]
    return below, above


def _moved(order: OrderColumn, place: Values, distance: int) -> Values | None:
    """The place so far from another; None if it is beyond all values."""
    try:
        return (order.shifted(place[0], distance),)
    except OverflowError:
        return None


def _sorted(order: Sequence[OrderColumn], places: Sequence[Values]) -> list[Values]:
    """The places in order, each once."""
    by_order = sorted(places, key=cmp_to_key(partial(compare, order)))
    return [
        place for i, place in enumerate(by_order) if i == 0 or compare(order, by_order[i - 1], place) != 0
    ]


def _index(order: Sequence[OrderColumn], places: Sequence[Values], place: Values) -> int:
    return next(i for i, each in enumerate(places) if compare(order, each, place) == 0)


def _rows_between(
    sample: OrderedSample, order: Sequence[OrderColumn], below: Values | None, above: Values | None
) -> float:
    """About how many rows are between two places."""
    start = 0 if below is None else _position(sample, order, below)
    end = len(sample.values) if above is None else _position(sample, order, above)
    return float(sample.rows[start:end].sum())


def _position(sample: OrderedSample, order: Sequence[OrderColumn], place: Values) -> int:
    low, high = 0, len(sample.values)
    while low < high:
        middle = (low + high) // 2
        if compare(order, sample.values[middle], place) < 0:
            low = middle + 1
        else:
            high = middle
    return low
