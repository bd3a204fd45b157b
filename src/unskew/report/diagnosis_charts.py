"""The charts of a diagnosis, as Vega-Lite specifications made from plain rows.

Colours are those of `charts`: the table that unskew would use comes first, and is boldest.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from unskew.report.charts import PALETTE, Spec
from unskew.report.page import Row

_BARS_APART = 48
"""With more slots than this, bars side by side are too thin to see, and only their outline is drawn."""

_BY_LOAD = "slots, fullest first"

_LANES = 360
"""Height in pixels of all lanes of a block together, if there are many cores."""


def loads(rows: Sequence[Row], *, series: Sequence[str], bound: float, height: int = 300) -> Spec:
    """Bars of slot loads, fullest first: rows with `rank`, `slot`, `series` and `load` (1 is the mean).

    Lines mark the mean and, where it is above that, the bound.
    """
    last = max((row["rank"] for row in rows), default=1)
    top = max([bound, *(row["load"] for row in rows)])
    y = alt.Y(
        "load:Q",
        title="slot load, × mean",
        scale=alt.Scale(domain=[0, top * 1.12], nice=False),
        axis=alt.Axis(grid=True, format="~r"),
        stack=None,
    )
    tooltip = [
        alt.Tooltip("series:N", title="table"),
        alt.Tooltip("slot:Q", title="slot"),
        alt.Tooltip("load:Q", title="load, × mean", format=".3f"),
    ]
    if last <= _BARS_APART:
        x = alt.X("rank:O", title=_BY_LOAD, axis=alt.Axis(labelAngle=0))
        apart = alt.XOffset("series:N", sort=list(series))
        bars = _on(rows).mark_bar().encode(x=x, xOffset=apart, y=y, color=_colours(series), tooltip=tooltip)
    else:
        bars = _skyline(rows, series, last, y)
    lines = [{"at": 1.0, "label": "mean"}]
    if bound > 1.0:
        lines.append({"at": bound, "label": f"bound {bound:.2f}: the heaviest key alone"})
    level = _on(lines)
    rule = level.mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(y="at:Q")
    label = level.mark_text(align="right", baseline="bottom", dy=-4).encode(
        x=alt.value("width"), y="at:Q", text="label:N"
    )
    return _spec(alt.layer(bars, rule, label), height)


def timeline(
    tasks: Sequence[Row], ends: Sequence[Row], *, series: Sequence[str], blocks: Sequence[str], cores: int
) -> Spec:
    """When each slot's task runs on which core: one block of lanes per series, in the order of `blocks`.

    `tasks` have `series`, `core`, `slot`, `start`, `end`, `load` and `straggler`; `ends` have `series`, `end` and
    `label`. Time 1 is the length of perfectly even work. Stragglers are drawn solid, other tasks pale.
    """
    step = max(1.0, min(16.0, _LANES / cores))
    head = 30 / step  # a block's heading, in lanes
    tops = {name: i * (cores + head) + head for i, name in enumerate(blocks)}
    gap = 0.12 if step >= 4 else 0.0
    drawn = [
        {
            **task,
            "top": tops[task["series"]] + task["core"] + gap / 2,
            "bottom": tops[task["series"]] + task["core"] + 1 - gap / 2,
            "strength": 1.0 if task["straggler"] else 0.45,
        }
        for task in tasks
    ]
    longest = max([1.0, *(row["end"] for row in ends)])
    lanes = len(blocks) * (cores + head)
    x = alt.X(
        "start:Q",
        title="time, 1 = perfectly even work",
        scale=alt.Scale(domain=[0, longest * 1.02], nice=False),
        axis=alt.Axis(grid=False, format="~r", tickCount=8),
    )
    y = alt.Y("top:Q", title=None, axis=None, scale=alt.Scale(domain=[0, lanes], reverse=True, nice=False))
    bars = (
        _on(drawn)
        .mark_rect(stroke="white", strokeWidth=0.5 if step >= 4 else 0.0)
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            y2="bottom:Q",
            color=_colours(series, legend=False),
            opacity=alt.Opacity("strength:Q", scale=None, legend=None),
            tooltip=[
                alt.Tooltip("series:N", title="table"),
                alt.Tooltip("slot:Q", title="slot"),
                alt.Tooltip("core:Q", title="core"),
                alt.Tooltip("load:Q", title="load, × mean", format=".2f"),
                alt.Tooltip("end:Q", title="ends at", format=".2f"),
            ],
        )
    )
    headings = [
        {**row, "top": tops[row["series"]] - 0.35 * head, "low": tops[row["series"]] + cores} for row in ends
    ]
    heading = (
        _on(headings)
        .mark_text(align="left", baseline="middle", fontWeight="bold")
        .encode(x=alt.value(0), y="top:Q", text="label:N")
    )
    finish = (
        _on(headings)
        .mark_rule(strokeWidth=2)
        .encode(
            x="end:Q",
            y="top:Q",
            y2="low:Q",
            color=_colours(series, legend=False),
            tooltip=[alt.Tooltip("end:Q", title="ends at", format=".2f")],
        )
    )
    ideal = (
        _on([{"at": 1.0, "first": tops[row["series"]], "last": tops[row["series"]] + cores} for row in ends])
        .mark_rule(strokeDash=[4, 3], strokeWidth=1.5)
        .encode(x="at:Q", y="first:Q", y2="last:Q")
    )
    return _spec(alt.layer(bars, ideal, finish, heading), round(lanes * step))


def heavy_keys(rows: Sequence[Row], *, whole_slot: float) -> Spec:
    """One dot per key on a logarithmic scale: rows with `name`, `share` and `slots`, heaviest first.

    The line at `whole_slot` is the share of one mean slot: keys beyond it do not fit into one.
    """
    names = [row["name"] for row in rows]
    least = min([whole_slot, *(row["share"] for row in rows if row["share"] > 0)])
    most = max([whole_slot, *(row["share"] for row in rows)])
    low, high = least / 1.5, most * 2.2  # room for the figure to the right of the heaviest key
    drawn = [
        {**row, "from": low, "kind": _TOO_HEAVY if row["share"] > whole_slot else _FITS}
        for row in rows
        if row["share"] > 0
    ]
    x = alt.X(
        "share:Q",
        title="share of all load, logarithmic",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(format=".2~%", grid=True, tickCount=5),
    )
    base = _on(drawn).encode(
        y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=330)),
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=[_TOO_HEAVY, _FITS], range=[PALETTE[0], PALETTE[1]]),
            legend=alt.Legend(title=None, orient="top", symbolType="circle", symbolOpacity=1, labelLimit=0),
        ),
    )
    stems = base.mark_rule(strokeWidth=2, opacity=0.4).encode(x=x, x2="from:Q")
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=x,
        tooltip=[
            alt.Tooltip("name:N", title="key"),
            alt.Tooltip("share:Q", title="share of all load", format=".3%"),
            alt.Tooltip("slots:Q", title="slots' worth", format=".3f"),
        ],
    )
    figures = (
        _on(drawn)
        .mark_text(align="left", dx=9)
        .encode(y=alt.Y("name:N", sort=names), x="share:Q", text=alt.Text("share:Q", format=".2%"))
    )
    limit = _on([{"at": whole_slot}]).mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(x="at:Q")
    return _spec(alt.layer(limit, stems, dots, figures), max(60, 24 * len(drawn)))


_TOO_HEAVY = "more than one slot's worth"
_FITS = "fits one slot"


def _skyline(rows: Sequence[Row], series: Sequence[str], last: int, y: alt.Y) -> alt.Chart:
    """The outline of bars without gaps between them, one series over the other."""
    edges = [{**row, "at": row["rank"] - 1} for row in rows]
    edges += [{**row, "at": last} for row in rows if row["rank"] == last]
    x = alt.X(
        "at:Q",
        title=_BY_LOAD,
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )
    chart: alt.Chart = (
        _on(sorted(edges, key=lambda row: -series.index(row["series"])))
        .mark_area(interpolate="step-after", fillOpacity=0.3, line=True)
        .encode(x=x, y=y, color=_colours(series))
    )
    return chart


def _colours(series: Sequence[str], *, legend: bool = True) -> alt.Color:
    return alt.Color(
        "series:N",
        scale=alt.Scale(domain=list(series), range=list(PALETTE[: len(series)])),
        legend=alt.Legend(title=None, orient="top") if legend else None,
    )


def _on(rows: Sequence[Row]) -> alt.Chart:
    return alt.Chart({"values": list(rows)})


def _spec(chart: alt.LayerChart | alt.FacetChart, height: int) -> Spec:
    return {**chart.to_dict(), "width": "container", "height": height}
