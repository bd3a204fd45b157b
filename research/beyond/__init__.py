"""Beyond the papers: all planners against each other, and the design at a scale that no machine here has."""

from __future__ import annotations

from research.beyond import scale, tournament
from research.papers.experiment import Paper

PAPER = Paper(
    authors="unskew",
    title="Beyond the papers",
    venue="Our own bars",
    entries=(tournament.TOURNAMENT, scale.SCALE),
)
