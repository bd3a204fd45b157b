"""One hashtag that moves from region to region: Figure 10."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from research.correlated import drifting_pairs
from research.papers.drawing import styles
from research.papers.experiment import Experiment, Fact, Record, Run, shape
from unskew.core.histogram import sum_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 20
"""Records per week; with fewer, the region that most of them come from is chance."""

REGIONS_DRAWN = 3


def travelling(run: Run) -> dict[str, Any]:
    """The weekly records, by region, of the hashtag whose home region changes most often."""
    return run.each([dict(run.parameters)], lambda **stream: _most_travelled(run.seed, **stream))[0]  # type: ignore[no-any-return]


def _most_travelled(seed: int, **stream: Any) -> dict[str, Any]:
    regions = stream["regions"]
    weeks = [
        np.unique(tag * regions + place, return_counts=True)
        for place, tag in drifting_pairs(seed=seed, **stream)
    ]
    homes: dict[int, dict[int, int]] = {}
    for number, (pairs, counts) in enumerate(weeks):
        for tag, home in _homes(pairs, counts, regions):
            homes.setdefault(tag, {})[number] = home
    # among those with the most homes the one that lasted longest, then the one that came first
    tag = min(homes, key=lambda t: (-len(set(homes[t].values())), -len(homes[t]), t))
    places = list(dict.fromkeys(homes[tag].values()))[:REGIONS_DRAWN]
    lines = {
        f"region {place}": [int(counts[pairs == tag * regions + place].sum()) for pairs, counts in weeks]
        for place in places
    }
    return {"hashtag": tag, "weeks": sorted(homes[tag]), "lines": lines}


def _homes(pairs: Any, counts: Any, regions: int) -> list[tuple[int, int]]:
    """Frequent hashtags, each with the region that most of its records come from."""
    tags, at = np.unique(pairs // regions, return_inverse=True)
    order = np.lexsort((pairs, -counts, at))
    first = order[np.flatnonzero(np.diff(at[order], prepend=-1))]
    frequent = sum_by(at, counts, len(tags)) >= FEWEST
    return [
        (int(t), int(pairs[row] % regions)) for t, row in zip(tags[frequent], first[frequent], strict=True)
    ]


def _turns(record: Record) -> Fact:
    """In the week of its peak a region has most of the records that the three have, and no two peak in one week."""
    lines = record.results["lines"]
    peaks = {name: int(np.argmax(line)) for name, line in lines.items()}
    shares = {
        name: lines[name][peak] / max(sum(line[peak] for line in lines.values()), 1)
        for name, peak in peaks.items()
    }
    holds = len(set(peaks.values())) >= REGIONS_DRAWN and min(shares.values()) > 0.5
    measured = ", ".join(
        f"{name} in week {peak} ({max(lines[name])} records, {shares[name]:.0%} of the three)"
        for name, peak in peaks.items()
    )
    return Fact(holds, measured)


def draw(record: Record, figure: Figure) -> None:
    """Figure 10: records of the hashtag by region over time."""
    axes = figure.subplots()
    weeks = record.results["weeks"]
    around = range(max(0, weeks[0] - 2), weeks[-1] + 3)
    for (name, line), style in zip(record.results["lines"].items(), styles(), strict=False):
        drawn = [week for week in around if week < len(line)]
        axes.plot(drawn, [line[week] for week in drawn], label=name, **style)
    axes.set(xlabel="week", ylabel="records of one hashtag")
    axes.legend()


PLACES = Experiment(
    name="caneill-10",
    title="Records of one hashtag in different places",
    parameters={"weeks": 30, "regions": 1000, "hashtags": 50_000, "records": 200_000},
    compute=travelling,
    claims=(shape("one hashtag is most correlated with three places in turn", _turns),),
    draw=draw,
    reduced=True,
    setting=(
        "In generated weeks, the hashtag whose region changed most often: the figure shows what the generator means "
        "by moving correlations, and proves nothing about tweets. Weeks stand for the paper's days."
    ),
)
