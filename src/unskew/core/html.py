"""A value as a notebook shows it: a few figures and a picture, in HTML that loads nothing and runs nothing.

Every text is escaped here, so a key that holds markup is shown as it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from unskew.core.text import inert

_BLUE, _RED, _GREY = "#0072B2", "#D55E00", "#808080"
_WIDTH, _HEIGHT = 480, 96
_MOST_BARS = 240
"""More bars than this would be thinner than two pixels: the fullest of neighbours are drawn."""


@dataclass(frozen=True)
class Bar:
    """A line of a table with a bar: what it is, how long the bar is (0 to 1), and the figure beside it."""

    label: str
    length: float
    figure: str


def fragment(title: str, facts: Sequence[tuple[str, str]], *pictures: str) -> str:
    """A title, a table of facts, and pictures below."""
    rows = "".join(
        f'<tr><th style="text-align:left;font-weight:normal;opacity:.7">{_safe(name)}</th>'
        f'<td style="text-align:left">{_safe(value)}</td></tr>'
        for name, value in facts
    )
    return (
        f'<div style="font-family:system-ui,sans-serif;max-width:42em"><strong>{_safe(title)}</strong>'
        f'<table style="border-collapse:collapse;margin:.4em 0">{rows}</table>{"".join(pictures)}</div>'
    )


def ranked(caption: str, bars: Sequence[Bar]) -> str:
    """A table with one bar per row, such as the heaviest keys."""
    rows = "".join(
        f'<tr><td style="text-align:left">{_safe(bar.label)}</td><td style="text-align:left">'
        f'<svg width="160" height="10" role="presentation">'
        f'<rect width="{160 * _unit(bar.length):.1f}" height="10" fill="{_BLUE}"/></svg></td>'
        f'<td style="text-align:right">{_safe(bar.figure)}</td></tr>'
        for bar in bars
    )
    head = f'<caption style="text-align:left">{_safe(caption)}</caption>'
    return f'<table style="border-collapse:collapse">{head}{rows}</table>'


def columns(caption: str, values: Sequence[float], level: float, level_name: str) -> str:
    """Upright bars in order, such as the load of every slot, with a dashed line at a level; those far above are red."""
    shown = _fullest(values)
    top = max([*shown, level, 1e-12]) * 1.08
    step = _WIDTH / max(len(shown), 1)
    bars = "".join(
        f'<rect x="{i * step:.2f}" y="{_HEIGHT * (1 - value / top):.2f}" width="{max(step - 1, 1):.2f}" '
        f'height="{_HEIGHT * value / top:.2f}" fill="{_RED if value > 1.5 * level else _BLUE}"/>'
        for i, value in enumerate(shown)
    )
    y = _HEIGHT * (1 - level / top)
    line = f'<line x1="0" x2="{_WIDTH}" y1="{y:.2f}" y2="{y:.2f}" stroke="{_GREY}" stroke-dasharray="4 3"/>'
    label = f"{caption}; the dashed line is {level_name}"
    return (
        f'<figure style="margin:.4em 0"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="{_safe(label)}" style="max-width:100%">{bars}{line}</svg>'
        f'<figcaption style="opacity:.7">{_safe(label)}</figcaption></figure>'
    )


def _fullest(values: Sequence[float]) -> list[float]:
    size = -(-len(values) // _MOST_BARS) or 1
    return [max(float(value) for value in values[i : i + size]) for i in range(0, len(values), size)]


def _unit(length: float) -> float:
    return min(max(float(length), 0.0), 1.0)


def _safe(text: str) -> str:
    return escape(inert(text))
