"""The papers, and their experiments by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from research import beyond
from research.papers import caneill, dkg, gedik, guo, kip
from research.papers.experiment import Benchmarked, Experiment, Omitted, Paper

PAPERS: tuple[Paper, ...] = (gedik.PAPER, dkg.PAPER, guo.PAPER, kip.PAPER, caneill.PAPER, beyond.PAPER)


def experiments() -> dict[str, Experiment]:
    """Every experiment by its name, in the papers' order."""
    return {experiment.name: experiment for paper in PAPERS for experiment in paper.experiments}


def choose(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names, or all if no name is given; a paper's name stands for all its experiments."""
    by_name = experiments()
    if not names:
        return list(by_name.values())
    chosen: dict[str, Experiment] = {}
    for name in names:
        of_paper = {key: by_name[key] for key in by_name if key.startswith(f"{name}-")}
        if name not in by_name and not of_paper:
            raise ValueError(_unknown(name, by_name))
        chosen |= {name: by_name[name]} if name in by_name else of_paper
    return list(chosen.values())


def _unknown(name: str, by_name: dict[str, Experiment]) -> str:
    for entry in (entry for paper in PAPERS for entry in paper.entries):
        if isinstance(entry, Omitted) and entry.name == name:
            return f"{name} is not computed: {entry.why}"
        if isinstance(entry, Benchmarked) and entry.name == name:
            return f"{name} is measured by `{entry.command}`, on several hosts"
    close = difflib.get_close_matches(name, by_name, 1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"there is no experiment {name!r}: {hint}`python -m research list` prints all names"
