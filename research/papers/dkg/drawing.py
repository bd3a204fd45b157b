"""Lines and heat maps as the DKG paper draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from research.papers.drawing import styles
from research.papers.experiment import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {"λ": "imbalance λ (%)", "σ": "standard deviation σ"}
AXES = {
    "k": "number of instances k",
    "mu": "μ",
    "theta": "Θ",
    "learned": "training set's size m",
    "exponent": "α",
}


def draw_lines(
    record: Record, figure: Figure, *, measure: str, worst: Sequence[str] = (), scale: str = "linear"
) -> None:
    """Draw every line over the first entry of the results; the worst cases of the lines in `worst` are dashed."""
    x, values = next(iter(record.results.items()))
    axes = figure.subplots()
    for (name, line), style in zip(record.results["lines"].items(), styles(), strict=False):
        axes.errorbar(values, line[measure], line.get(f"{measure} error"), label=name, **style)
        if name in worst:
            axes.plot(values, line[f"{measure} worst"], label=f"{name}, worst", linestyle="--", **style)
    axes.set(xlabel=AXES[x], ylabel=LABELS[measure], xscale=scale)
    axes.legend()


def draw_maps(record: Record, figure: Figure) -> None:
    """σ over Θ and μ: means above worst cases, one column per distribution; dark is good."""
    lines = record.results["lines"]
    thetas, mus = record.results["theta"], record.results["mu"]
    for row, measure in zip(figure.subplots(2, len(lines), squeeze=False), ("σ", "σ worst"), strict=True):
        for axes, (name, line) in zip(row, lines.items(), strict=True):
            cells = [line[measure][at : at + len(mus)] for at in range(0, len(line[measure]), len(mus))]
            image = axes.pcolormesh(mus, thetas, cells, shading="nearest", cmap="viridis", rasterized=True)
            figure.colorbar(image, ax=axes)
            axes.grid(False)
            kind = "mean" if measure == "σ" else "worst"
            axes.set(title=f"{name}, {kind}", xlabel="μ", ylabel="Θ")
