"""Pictures of experiments as SVG files: the same record gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from research.papers.experiment import MeasuredFigure, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def picture(figure: MeasuredFigure, record: Record) -> str | None:
    """The SVG of a record in the form of the paper's figure; None for a table."""
    if figure.draw is None:
        return None
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcParams.update(
            {
                "axes.grid": True,
                "font.size": 9,
                "grid.alpha": 0.3,
                # matplotlib's search for the best place can take long
                "legend.loc": "upper left",
                # the same numbers give the same file
                "svg.hashsalt": "unskew",
            }
        )
        canvas = Figure(figsize=figure.size, layout="constrained")
        figure.draw(record, canvas)
        svg = io.StringIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
    return svg.getvalue()


def styles() -> Iterator[dict[str, Any]]:
    """Colour and marker for each line in turn, as keyword arguments of `plot`."""
    for color, marker in zip(COLORS, MARKERS, strict=True):
        yield {"color": color, "marker": marker}


def ideal(axes: Axes, value: float = 1.0) -> None:
    """Draw a dashed line at the ideal value."""
    axes.axhline(value, color="black", linewidth=0.8, linestyle="--")
