"""Pictures of experiments as SVG files: the same record gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from research.papers.experiment import Judged, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def picture(judged: Judged, record: Record) -> str | None:
    """The SVG of a record in the form of the paper's figure; None for a table."""
    if judged.draw is None:
        return None
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcParams.update(
            {
                "axes.grid": True,
                "font.size": 9,
                "grid.alpha": 0.3,
                "legend.loc": "upper left",  # looking for the best place may take long
                "svg.hashsalt": "unskew",  # the same figures give the same file
            }
        )
        figure = Figure(figsize=judged.size, layout="constrained")
        judged.draw(record, figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def styles() -> Iterator[dict[str, Any]]:
    """Colour and marker of one line after the other, as keywords of `plot`."""
    for color, marker in zip(COLORS, MARKERS, strict=True):
        yield {"color": color, "marker": marker}


def ideal(axes: Axes, value: float = 1.0) -> None:
    """The line that marks the ideal."""
    axes.axhline(value, color="black", linewidth=0.8, linestyle="--")
