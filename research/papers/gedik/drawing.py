"""Radar charts, lines and bars as Gedik draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from research.papers.drawing import ideal, styles
from research.papers.experiment import Record
from research.papers.gedik.growing import rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {"m": "relative migration m", "b": "relative imbalance b"}
AXES = {
    "z": "Zipf skew z",
    "sigma": "frequency threshold scaler σ",
    "slots": "channels N",
    "keys": "domain size",
}
SPOKES = ("m", "b", "b_s", "b_c", "b_n")


def draw_radars(record: Record, figure: Figure) -> None:
    """One chart per resource combination: logarithms of migration and imbalances, the ideal in black."""
    angles = np.linspace(0, 2 * np.pi, len(SPOKES) + 1)
    combinations = record.parameters["resources"]
    panels = figure.subplots(1, len(combinations), subplot_kw={"projection": "polar"})
    for axes, resources in zip(panels, combinations, strict=True):
        for row, style in zip(rows(record, resources=resources), styles(), strict=False):
            values = [np.log10(1 + row[name]) for name in (*SPOKES, SPOKES[0])]
            axes.plot(angles, values, label=row["planner"], markersize=3, linewidth=1, **style)
        axes.plot(angles, np.full(len(angles), np.log10(2)), color="black", linewidth=1)
        axes.set_xticks(angles[:-1], SPOKES)
        axes.set_yticklabels([])
        axes.set_title(f"{resources}, log(1 + value)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)


def draw_panels(record: Record, figure: Figure, *, x: str, logarithmic: bool = False) -> None:
    """One row of panels per resource combination: migration on the left, imbalance on the right."""
    combinations = record.parameters["resources"]
    grid = figure.subplots(len(combinations), 2, squeeze=False)
    for line, resources in zip(grid, combinations, strict=True):
        for axes, measure in zip(line, LABELS, strict=True):
            for planner, style in zip(record.parameters["planner"], styles(), strict=False):
                points = rows(record, resources=resources, planner=planner)
                axes.errorbar(
                    [row[x] for row in points],
                    [row[measure] for row in points],
                    [row["errors"][measure] for row in points],
                    label=planner,
                    **style,
                )
            ideal(axes)
            axes.set(xlabel=AXES[x], ylabel=LABELS[measure], title=resources)
            _scales(axes, measure, logarithmic)
    grid[0][1].legend(fontsize=7)


def draw_utilities(record: Record, figure: Figure) -> None:
    """Bars by resource combination, one per utility function; one row of panels per planner."""
    combinations, utilities = record.parameters["resources"], record.parameters["utility"]
    width = 0.8 / len(utilities)
    grid = figure.subplots(len(record.parameters["planner"]), 2, squeeze=False)
    for line, planner in zip(grid, record.parameters["planner"], strict=True):
        for axes, measure in zip(line, LABELS, strict=True):
            for at, (utility, style) in enumerate(zip(utilities, styles(), strict=False)):
                bars = rows(record, planner=planner, utility=utility)
                places = np.arange(len(combinations)) + at * width
                axes.bar(places, [row[measure] for row in bars], width, label=utility, color=style["color"])
            axes.set_xticks(np.arange(len(combinations)) + 0.4, combinations)
            axes.set(ylabel=LABELS[measure], title=planner, yscale="log" if measure == "b" else "linear")
    grid[0][0].legend(fontsize=7)


def draw_sizes(record: Record, figure: Figure, *, x: str, logarithmic: bool = False) -> None:
    """Keys in the lossy counter on the left axis (solid), rows of the table on the right axis (dashed)."""
    left = figure.subplots()
    right = left.twinx()
    for resources, style in zip(record.parameters["resources"], styles(), strict=False):
        points = rows(record, resources=resources)
        xs = [row[x] for row in points]
        left.plot(xs, [row["counted"] for row in points], label=f"{resources}, counter", **style)
        right.plot(xs, [row["rows"] for row in points], label=f"{resources}, rows", linestyle="--", **style)
    left.set(xlabel=AXES[x], ylabel="keys in the lossy counter", yscale="log")
    right.set(ylabel="keys with a row")
    right.grid(False)
    if logarithmic:
        left.set_xscale("log")
    figure.legend(loc="outside lower center", ncols=3)


def draw_times(record: Record, figure: Figure, *, x: str, logarithmic: bool = False) -> None:
    """Planning time in seconds."""
    axes = figure.subplots()
    for planner, style in zip(record.parameters["planner"], styles(), strict=False):
        at = [i for i, row in enumerate(record.results) if row["planner"] == planner]
        seconds = [record.times["points"][i]["parts"]["planning"] for i in at]
        axes.plot([record.results[i][x] for i in at], seconds, label=planner, **style)
    axes.set(xlabel=AXES[x], ylabel="planning time, s", yscale="log")
    if logarithmic:
        axes.set_xscale("log")
    axes.legend()


def _scales(axes: Axes, measure: str, logarithmic: bool) -> None:
    if measure == "m":
        axes.set_yscale("log")
    if logarithmic:
        axes.set_xscale("log")
