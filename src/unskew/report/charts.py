"""The charts of the reports, as Vega-Lite specifications made from plain rows.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart, and lines differ in
their dashes, too. Series are named in order of importance: the first is drawn boldest. Names are data; they
never become part of an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import altair as alt

from unskew.report.page import Row

Spec: TypeAlias = dict[str, Any]

PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Vermillion, blue, bluish green, reddish purple, orange, sky blue."""

NEUTRAL = "#808080"
"""Legible on white and on black: bounds, and everything that is not the point of the chart."""

_DASHES = ([1, 0], [1, 0], [7, 3], [3, 2], [9, 3, 2, 3], [5, 2])
_BOUND_DASH = [2, 4]

Side: TypeAlias = Literal["right", "left", "above right", "below right", "above left", "below left"]
Box: TypeAlias = tuple[float, float, float, float]

_SIDES: dict[Side, tuple[Literal["left", "right"], int, int]] = {
    "right": ("left", 8, 0),
    "left": ("right", -8, 0),
    "above right": ("left", 2, -12),
    "below right": ("left", 2, 12),
    "above left": ("right", -2, -12),
    "below left": ("right", -2, 12),
}
_NEAR = 3.0
"""Pixels: points closer than this share one label."""

_LETTER = 6.5
"""Pixels: the mean width of a letter in a label."""

_PLACED_FOR = 450
"""Pixels: labels that fit a chart of this width also fit a wider one."""

_ROOT = 1 / 3
_MOST_TICKS = 24
_SHARED = frozenset({"$schema", "config", "datasets"})


def over_time(
    rows: Sequence[Row],
    *,
    series: Sequence[str],
    bound: str | None = None,
    x_title: str = "window",
    y_title: str = "imbalance, max/mean slot load",
    floor: float | None = None,
    form: str = ".2f",
    width: int | str = "container",
    height: int = 300,
    marks: Sequence[int] = (),
) -> Spec:
    """One line per series: rows with `window`, `series` and `value`; the series `bound` is a dotted line.

    The vertical axis starts at `floor`, or near the lowest value. At the windows in `marks` there is an upright line.
    """
    names = [*series, bound] if bound is not None else list(series)
    _check_series(rows, names)
    lines = len(series)
    colours = _cycled(PALETTE, lines) + [NEUTRAL] * (bound is not None)
    dashes = _cycled(_DASHES, lines) + [_BOUND_DASH] * (bound is not None)
    widths = [3.5] + [2.0] * (len(names) - 1)
    # a scale that is not ordinal would interpolate between the widths
    width_scale = alt.Scale(type="ordinal", domain=names, range=widths)
    windows = sorted({row["window"] for row in rows})
    ticks = windows[:: len(windows) // _MOST_TICKS + 1]
    legend = alt.Legend(title=None, orient="top", symbolType="stroke", symbolSize=500)
    domain = alt.Scale(zero=False, nice=True) if floor is None else alt.Scale(domainMin=floor, nice=True)
    chart = (
        _on(_last_first(rows, names))
        .mark_line(point=alt.OverlayMarkDef(size=22, filled=True))
        .encode(
            x=alt.X("window:Q", title=x_title, axis=alt.Axis(values=ticks, grid=False, format="d")),
            y=alt.Y("value:Q", title=y_title, scale=domain),
            color=alt.Color("series:O", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash("series:O", scale=alt.Scale(domain=names, range=dashes), legend=legend),
            strokeWidth=alt.StrokeWidth("series:O", scale=width_scale, legend=legend),
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("window:Q", title=x_title),
                alt.Tooltip("value:Q", title=y_title, format=form),
            ],
        )
    )
    if marks:
        upright = _on([{"window": window} for window in marks])
        return _spec(
            upright.mark_rule(color=NEUTRAL, opacity=0.45).encode(x="window:Q") + chart, width, height
        )
    return _spec(chart, width, height)


def slot_loads(
    rows: Sequence[Row],
    *,
    series: Sequence[str],
    bound: float,
    y_title: str = "slot load, × mean",
    width: int | str = "container",
    height: int = 280,
) -> Spec:
    """Bars side by side: rows with `rank`, `slot`, `series`, `load` (1 is the mean); a line at the bound."""
    _check_series(rows, series)
    bars = (
        _on(rows)
        .mark_bar()
        .encode(
            x=alt.X("rank:O", title="slots, fullest first", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("series:N", sort=list(series)),
            y=alt.Y("load:Q", title=y_title, scale=alt.Scale(nice=True)),
            color=alt.Color(
                "series:N",
                scale=alt.Scale(domain=list(series), range=_cycled(PALETTE, len(series))),
                legend=alt.Legend(title=None, orient="top"),
            ),
            tooltip=[
                alt.Tooltip("series:N", title="table"),
                alt.Tooltip("slot:Q", title="slot"),
                alt.Tooltip("load:Q", title=y_title, format=".3f"),
            ],
        )
    )
    marks = [{"at": bound, "label": f"lower bound of the fullest slot: {bound:.2f} × mean"}]
    level = _on(marks)
    rule = level.mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(y="at:Q")
    label = level.mark_text(align="right", baseline="bottom", dy=-4).encode(
        x=alt.value(width if isinstance(width, int) else "width"), y="at:Q", text="label:N"
    )
    return _spec(alt.layer(bars, rule, label), width, height)


def ranked(
    rows: Sequence[Row],
    *,
    highlight: str,
    x_title: str,
    form: str = ".1%",
    width: int | str = "container",
) -> Spec:
    """Horizontal bars in the order of the rows, which have `name` and `value`; one of them stands out."""
    names = [row["name"] for row in rows]
    colours = [PALETTE[0] if name == highlight else NEUTRAL for name in names]
    most = max((row["value"] for row in rows), default=0.0)
    room = alt.Scale(domain=[0, (most or 1.0) * 1.2])  # for the figure to the right of the longest bar
    base = _on(rows).encode(
        y=alt.Y("name:N", sort=names, title=None),
        x=alt.X(
            "value:Q",
            title=x_title,
            scale=room,
            axis=alt.Axis(format="~%" if form.endswith("%") else "~s", tickCount=6),
        ),
    )
    bars = base.mark_bar().encode(
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=None),
        tooltip=[alt.Tooltip("name:N", title=" "), alt.Tooltip("value:Q", title=x_title, format=form)],
    )
    figures = base.mark_text(align="left", dx=4).encode(text=alt.Text("value:Q", format=form))
    return _spec(alt.layer(bars, figures), width, 22 * len(rows))


def tradeoff(
    points: Sequence[Row],
    front: Sequence[Row],
    *,
    highlight: str,
    highest: float,
    x_title: str = "state moved per window",
    y_title: str = "imbalance ÷ lower bound",
    width: int | str = "container",
    height: int = 400,
) -> Spec:
    """Imbalance against state moved: down and to the left is better.

    `points` have `name`, `kind`, `moved` and `imbalance`, `front` rows `setting`, `moved` and `imbalance` of
    one planner under several settings, joined where no other setting is better on both. Points above
    `highest` are left out: say so in the caption. State moved is on a cube-root scale, so that a tenth of a
    per cent can be distinguished from zero.
    """
    visible = [row for row in points if row["imbalance"] <= highest]
    most = max([row["moved"] for row in [*visible, *front]] + [0.01])
    x = alt.X(
        "moved:Q",
        title=x_title,
        scale=alt.Scale(type="pow", exponent=_ROOT, domain=[0, most], nice=False),
        axis=alt.Axis(format=".3~%", values=[0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1]),
    )
    y = alt.Y("imbalance:Q", title=y_title, scale=alt.Scale(domainMin=1, nice=True))
    kinds, colours, shapes = _appearance(points, highlight)
    legend = alt.Legend(title=None, orient="top", symbolSize=110, padding=4)
    measures = [
        alt.Tooltip("imbalance:Q", title=y_title, format=".3f"),
        alt.Tooltip("moved:Q", title=x_title, format=".2%"),
    ]
    line = (
        _on(pareto_front(front)).mark_line(color=PALETTE[0], strokeWidth=2).encode(x=x, y=y, order="moved:Q")
    )
    settings = (
        _on(front)
        .mark_point(color=PALETTE[0], filled=False, size=40, opacity=1)
        .encode(x=x, y=y, tooltip=[alt.Tooltip("setting:N", title=highlight), *measures])
    )
    dots = (
        _on(sorted(visible, key=lambda row: row["name"] == highlight))
        .mark_point(filled=True, opacity=1, size=90)
        .encode(
            x=x,
            y=y,
            color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=colours), legend=legend),
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=shapes), legend=legend),
            tooltip=[alt.Tooltip("name:N", title="planner"), *measures],
        )
    )
    plot_width = width if isinstance(width, int) else _PLACED_FOR
    placed = place_labels(
        [
            (str(row["name"]), plot_width * (row["moved"] / most) ** _ROOT, height * _height_of(row, visible))
            for row in sorted(visible, key=lambda row: row["name"] != highlight)
        ],
        plot_width,
    )
    at = {str(row["name"]): row for row in visible}
    names = [
        _on([{**at[name], "label": label} for name, label, where in placed if where == side])
        .mark_text(align=align, dx=dx, dy=dy)
        .encode(x=x, y=y, text="label:N")
        for side, (align, dx, dy) in _SIDES.items()
        if any(where == side for _, _, where in placed)
    ]
    return _spec(alt.layer(line, settings, dots, *names), width, height)


def pareto_front(rows: Sequence[Row]) -> list[Row]:
    """The rows that no other row beats on imbalance and movement, from the least movement on."""
    front: list[Row] = []
    for row in sorted(rows, key=lambda r: (r["moved"], r["imbalance"])):
        if not front or row["imbalance"] < front[-1]["imbalance"]:
            front.append(row)
    return front


def spans(rows: Sequence[Row], *, runs: Sequence[str], width: int | str = "container") -> Spec:
    """When each task of each run worked: rows with `run`, `task`, `from` and `to` in seconds, one lane per task."""
    _check_series([{**row, "series": row["run"]} for row in rows], runs)
    ordered = sorted(rows, key=lambda row: (list(runs).index(row["run"]), row["task"]))
    lanes = [{**row, "lane": lane} for lane, row in enumerate(ordered)]
    bars = (
        _on(lanes)
        .mark_bar()
        .encode(
            x=alt.X("from:Q", title="seconds since the first task began"),
            x2="to:Q",
            y=alt.Y("lane:O", axis=None, scale=alt.Scale(paddingInner=0.25)),
            color=alt.Color(
                "run:N",
                scale=alt.Scale(domain=list(runs), range=_cycled(PALETTE, len(runs))),
                legend=alt.Legend(title=None, orient="top"),
            ),
            tooltip=[
                alt.Tooltip("run:N", title="run"),
                alt.Tooltip("task:Q", title="task"),
                alt.Tooltip("from:Q", title="from, s", format=".2f"),
                alt.Tooltip("to:Q", title="to, s", format=".2f"),
            ],
        )
    )
    ends = [{"run": run, "to": max(row["to"] for row in rows if row["run"] == run)} for run in runs]
    rule = _on(ends).mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(x="to:Q", color="run:N")
    return _spec(alt.layer(bars, rule), width, 9 * len(lanes))


def side_by_side(charts: Mapping[str, Spec]) -> Spec:
    """Charts of fixed width under their titles, as one picture on a light background that stands alone."""
    datasets: dict[str, Any] = {}
    parts = []
    for title, spec in charts.items():
        datasets |= spec["datasets"]
        parts.append(
            {"title": title, **{field: part for field, part in spec.items() if field not in _SHARED}}
        )
    own = dict.fromkeys(("color", "shape", "strokeDash", "strokeWidth"), "independent")
    soft = {"labelColor": "#57606a", "titleColor": "#57606a", "titleFontWeight": "normal"}
    return {
        "$schema": next(iter(charts.values()))["$schema"],
        "hconcat": parts,
        "datasets": datasets,
        "resolve": {"scale": own},
        "background": "white",
        "padding": 14,
        "spacing": 36,
        "config": {
            "view": {"stroke": None},
            "axis": {**soft, "gridColor": "#e3e6ea", "domainColor": "#c8cdd3", "tickColor": "#c8cdd3"},
            "legend": {**soft, "labelFontSize": 12},
            "title": {"anchor": "start", "color": "#1b1f24", "fontSize": 14, "offset": 8},
        },
    }


def place_labels(points: Sequence[tuple[str, float, float]], width: float) -> list[tuple[str, str, Side]]:
    """Where the names of points go: (name of the point, its label, side), the first points first.

    Points are (name, x, y) in pixels. Points on top of each other share the label of the first one. A side is
    free if the label then covers no point, no other label, and not the edges at 0 and `width`.
    """
    groups: list[list[tuple[str, float, float]]] = []
    for point in points:
        near = (g for g in groups if abs(g[0][1] - point[1]) < _NEAR and abs(g[0][2] - point[2]) < _NEAR)
        group = next(near, None)
        if group is None:
            groups.append([point])
        else:
            group.append(point)
    taken = [(x - 4, y - 4, x + 4, y + 4) for _, x, y in points]
    placed: list[tuple[str, str, Side]] = []
    for group in groups:
        name, x, y = group[0]
        label = ", ".join(member for member, _, _ in group)
        boxes = {side: label_box(label, x, y, side) for side in _SIDES}

        def cost(side: Side, boxes: dict[Side, Box] = boxes) -> float:
            left, _, right, _ = boxes[side]
            outside = max(0.0, -left) + max(0.0, right - width)
            return 20 * outside + sum(_overlap(boxes[side], box) for box in taken)

        best = min(_SIDES, key=cost)
        taken.append(boxes[best])
        placed.append((name, label, best))
    return placed


def label_box(label: str, x: float, y: float, side: Side) -> Box:
    """About where a label would be: left, top, right, bottom, in pixels."""
    align, dx, dy = _SIDES[side]
    length = _LETTER * len(label)
    left = x + dx if align == "left" else x + dx - length
    return left, y + dy - 6, left + length, y + dy + 6


def _overlap(a: Box, b: Box) -> float:
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    return max(across, 0.0) * max(down, 0.0)


def _height_of(row: Row, visible: Sequence[Row]) -> float:
    """How far down a point is, as a part of the chart's height."""
    top = max(point["imbalance"] for point in visible)
    return float((top - row["imbalance"]) / (top - 1.0)) if top > 1.0 else 1.0


def _appearance(points: Sequence[Row], highlight: str) -> tuple[list[str], list[str], list[str]]:
    """Kinds, that of the highlighted point first, with their colours and shapes."""
    ordered = sorted(points, key=lambda row: row["name"] != highlight)
    kinds = list(dict.fromkeys(str(row["kind"]) for row in ordered))
    colours = [PALETTE[0], NEUTRAL, *_cycled(PALETTE[3:], len(kinds))]
    shapes = ["circle", "circle", *_cycled(("diamond", "square", "triangle-up"), len(kinds))]
    return kinds, colours[: len(kinds)], shapes[: len(kinds)]


def _cycled(choices: Sequence[Any], n: int) -> list[Any]:
    return [choices[i % len(choices)] for i in range(n)]


def _last_first(rows: Sequence[Row], series: Sequence[str]) -> list[Row]:
    """Rows of the least important series first: lines are drawn in the order of the data."""
    return sorted(rows, key=lambda row: -series.index(row["series"]))


def _check_series(rows: Sequence[Row], series: Sequence[str]) -> None:
    unknown = {row["series"] for row in rows} - set(series)
    if unknown:
        names = sorted(map(str, unknown))
        raise ValueError(f"rows name the series {names}, which are missing from series={list(series)}")


def _on(rows: Sequence[Row]) -> alt.Chart:
    return alt.Chart({"values": list(rows)})


def _spec(chart: alt.Chart | alt.LayerChart | alt.FacetChart, width: int | str, height: int) -> Spec:
    return {**chart.to_dict(), "width": width, "height": height}
