from __future__ import annotations

import pytest

from research.papers.experiment import Experiment
from research.papers.records import as_json
from research.papers.registry import PAPERS, choose, experiments

OURS = {"caneill-drift", "caneill-flights", "caneill-planning"}
"""Our own bars, which are not in the papers."""

COMPLETE = {
    "gedik": {"gedik-live", "gedik-table-1", *(f"gedik-{n}" for n in range(1, 15))},
    "dkg": {"dkg-table-1", *(f"dkg-{n}" for n in range(1, 15))},
    "guo": {"guo-table-1", "guo-table-2", *(f"guo-{n}" for n in range(1, 7))},
    "kip": {"kip-shift", *(f"kip-{n}" for n in range(1, 9))},
    "caneill": OURS | {f"caneill-{n}" for n in range(1, 15)},
}


@pytest.mark.parametrize("paper", COMPLETE)
def test_every_figure_and_table_number_is_listed(paper: str) -> None:
    names = [entry.name for p in PAPERS for entry in p.entries if entry.name.startswith(f"{paper}-")]
    assert len(names) == len(set(names))
    assert set(names) == COMPLETE[paper]


@pytest.mark.parametrize("experiment", experiments().values(), ids=lambda e: e.name)
def test_an_experiment_can_be_saved_and_has_claims(experiment: Experiment) -> None:
    assert (
        as_json(experiment.parameter_set(quick=True)).keys()
        == as_json(experiment.parameter_set(quick=False)).keys()
    )
    assert experiment.claims
    assert all(claim.says for claim in experiment.claims)


def test_a_figure_that_a_benchmark_measures_is_refused_with_its_command() -> None:
    with pytest.raises(ValueError, match="caneill-7 is measured by `make bench-locality`"):
        choose(["caneill-7"])
    assert "caneill-7" not in {experiment.name for experiment in choose(["caneill"])}
