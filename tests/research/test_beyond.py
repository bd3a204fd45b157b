from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from research.beyond import pages
from research.beyond.scale import SCALE, Population
from research.beyond.tournament import PLANNERS, TOURNAMENT, WHOLE, gaps, on_front, ranking
from research.beyond.tournament_workloads import Size, workloads
from research.papers.experiment import Record
from research.papers.running import compute, run_all

SOME = ["Zipf 1, drifting", "crawl rounds", "sensors"]


@pytest.fixture(scope="module")
def tournament() -> Record:
    return compute(TOURNAMENT, workloads=SOME, windows=2, keys=600, records=6000, seeds=2, slots=8)


@pytest.mark.parametrize("name", workloads())
def test_a_workload_has_windows_with_state_that_depend_only_on_the_seed(name: str) -> None:
    size = Size(3, 600, 6000)
    windows, same = (list(workloads()[name](size, 1)) for _ in range(2))
    assert len(windows) == (12 if name.startswith("flights") else 3)
    assert all(w.total > 0 and w.total_state >= w.total for w in windows)
    assert [w.top(5) for w in windows] == [w.top(5) for w in same]


def test_every_planner_takes_part_and_ranks_add_up(tournament: Record) -> None:
    assert list(tournament.results) == SOME
    assert all(set(by_planner) == set(PLANNERS) for by_planner in tournament.results.values())
    ranks = [rank for _, rank, _ in ranking(tournament)]
    assert ranks == sorted(ranks)
    assert sum(ranks) == pytest.approx(len(WHOLE) * (len(WHOLE) + 1) / 2)


def test_the_best_planner_of_a_workload_has_no_gap(tournament: Record) -> None:
    gaps_by_planner = [gaps(tournament, name) for name in WHOLE]
    for workload in tournament.results:
        assert min(gap[workload] for gap in gaps_by_planner) == 0.0
    assert max(on_front(tournament).values()) <= len(tournament.results)
    assert sum(on_front(tournament).values()) >= len(tournament.results)


@pytest.mark.parametrize("exponent", [0.5, 0.8, 1.0])
def test_a_population_adds_up_however_few_of_its_keys_are_drawn(exponent: float) -> None:
    population = Population(10**5, exponent, 1000, 10**7)
    exact = np.arange(1, 10**5 + 1.0) ** -exponent
    assert population.mass == pytest.approx(exact.sum(), rel=1e-4)
    for window in population.windows(512, seed=3):
        assert window.total == pytest.approx(10**7, rel=0.01)
        assert window.distinct == pytest.approx(10**5)
        assert window.heaviest_share == pytest.approx(population.heaviest, rel=0.05)


def test_a_page_keeps_its_prose_and_gets_the_figures(tmp_path: Path) -> None:
    sizes = {"sizes": [(50, 500, 20), (100, 500, 20)], "servers": [5], "keys": 10**6, "records": 10**6}
    small = replace(SCALE, parameters={**SCALE.parameters, **sizes})
    page = tmp_path / "scale.md"
    page.write_text("before\n<!-- figures -->\nold\n<!-- end -->\nafter\n")
    (tmp_path / "images").mkdir()
    assert not pages.write(small, pages.sizes, tmp_path, tmp_path)
    record = run_all([small], tmp_path)[0]
    assert pages.write(small, pages.sizes, tmp_path, tmp_path)
    text = page.read_text()
    assert text.startswith("before\n<!-- figures -->\n![")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert text.count("| 500 |") == 2
    assert f"{record.results['plans'][0]['fit']:.3f}" in text
    assert (tmp_path / "images/scale.svg").read_text().lstrip().startswith("<?xml")


def test_the_standings_name_every_whole_key_planner_and_workload(tournament: Record) -> None:
    lines = "\n".join(pages.standings(tournament))
    assert all(f"| {name} |" in lines for name in (*WHOLE, *SOME))


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    small = replace(SCALE, parameters={**SCALE.parameters, "sizes": [], "servers": []})
    run_all([small], tmp_path)
    (tmp_path / "scale.md").write_text("no markers")
    with pytest.raises(ValueError, match="has no line <!-- figures -->"):
        pages.write(small, pages.sizes, tmp_path, tmp_path)
