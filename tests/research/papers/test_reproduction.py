from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from research.papers import reproduction
from research.papers.drawing import picture
from research.papers.experiment import (
    Benchmarked,
    Claim,
    Fact,
    Headline,
    Omitted,
    Paper,
    Record,
    Verdict,
    judge,
    shape,
)
from research.papers.registry import PAPERS, experiments
from research.papers.reproduction import gather, saved, write_html, write_markdown
from research.papers.running import compute, run_all
from tests.report.html_facts import assert_self_contained, read
from tests.research.papers.small import IMPOSSIBLE, Dice, experiment, paper, within_sides

HOLDS = shape("a throw is on its die", within_sides)
FAILS = shape("throws are negative", lambda _: Fact(False, "none is"), why="dice start at 1")


@pytest.mark.parametrize(
    ("claims", "verdict"),
    [
        ((HOLDS,), Verdict.AGREES),
        ((HOLDS, IMPOSSIBLE), Verdict.SHAPE),
        ((HOLDS, FAILS), Verdict.DIFFERS),
        ((IMPOSSIBLE, FAILS), Verdict.DIFFERS),
    ],
)
def test_a_failed_number_still_agrees_in_shape_and_a_failed_shape_differs(
    claims: tuple[Claim, ...], verdict: Verdict
) -> None:
    dice = experiment(Dice(), *claims)
    assert judge(dice, compute(dice)).verdict is verdict


def markdown(folder: Path, *claims: Claim) -> str:
    papers = gather([paper(Dice(), *claims)], folder, folder)
    write_markdown(papers, folder / "page.md")
    return (folder / "page.md").read_text("utf-8")


def test_every_entry_is_on_the_page_whether_it_was_run_or_not(tmp_path: Path) -> None:
    text = markdown(tmp_path)
    assert "### dice-1: A die\n\nNot computed: a photograph" in text
    assert text.count("| not run |") == 2
    assert "### dice-table-1" in text


def test_the_page_has_what_the_paper_says_what_we_measured_and_why_they_differ(tmp_path: Path) -> None:
    run_all(paper(Dice()).experiments, tmp_path)
    text = markdown(tmp_path, HOLDS, IMPOSSIBLE)
    assert "| a throw is on its die | every throw is on its die | yes |" in text
    assert "| the highest throw |" in text
    assert "Why: no die has 21 sides" in text
    assert "| [dice-2](#dice-2) | Throws \\| by sides | in shape |" in text


def test_a_reason_is_printed_only_where_a_claim_does_not_hold(tmp_path: Path) -> None:
    run_all(paper(Dice()).experiments, tmp_path)
    assert "Why:" not in markdown(tmp_path, HOLDS)


def test_figures_have_pictures_beside_the_page_and_tables_have_none(tmp_path: Path) -> None:
    run_all(paper(Dice()).experiments, tmp_path)
    text = markdown(tmp_path)
    assert "](page/dice-2.svg)" in text
    assert [path.name for path in (tmp_path / "page").iterdir()] == ["dice-2.svg"]


def test_the_full_record_is_preferred_to_the_quick_one(tmp_path: Path) -> None:
    run_all(paper(Dice()).experiments, tmp_path, quick=True)
    assert markdown(tmp_path).count("Quick set: sides = 6;") == 2
    run_all(paper(Dice()).experiments, tmp_path)
    assert "Quick set" not in markdown(tmp_path)


def test_the_html_page_is_self_contained_and_escaped(tmp_path: Path) -> None:
    run_all(paper(Dice()).experiments, tmp_path)
    write_html(gather([paper(Dice())], tmp_path, tmp_path), tmp_path / "page.html")
    page = read((tmp_path / "page.html").read_text("utf-8"))
    assert_self_contained(page)
    assert "On <dice>" in page.text
    assert page.tags.count("img") == 1


def test_the_same_record_gives_the_same_picture() -> None:
    dice = experiment(Dice())
    record = compute(dice)
    assert picture(dice, record) == picture(dice, record)


def test_a_figure_that_a_benchmark_measures_is_judged_by_its_results(tmp_path: Path) -> None:
    fast = shape("it is fast", lambda record: Fact(record.results["gain"] > 1, f"{record.results['gain']} ×"))
    figure = Benchmarked(
        name="dice-3", title="Throws per second", claims=(fast,), benchmark="dice", section="hosts"
    )
    papers = [Paper("Someone", "On dice", "Nowhere 2020", (figure,))]

    def page() -> str:
        write_markdown(gather(papers, tmp_path, tmp_path), tmp_path / "page.md")
        return (tmp_path / "page.md").read_text("utf-8")

    assert "| [dice-3](#dice-3) | Throws per second | not run |" in page()
    results = {"commit": "abc", "machine": {}, "hosts": {"gain": 1.5}}
    (tmp_path / "dice.json").write_text(json.dumps(results))
    assert "| it is fast | 1.5 × | yes |" in page()
    assert "Measured by `make bench-dice`, commit abc." in page()
    (tmp_path / "dice.json").write_text(json.dumps({**results, "hosts": {"gain": 0.5}}))
    assert "**Differs.**" in page()
    (tmp_path / "dice.json").write_text(json.dumps({**results, "hosts": {}}))
    with pytest.raises(
        ValueError, match=r"dice\.json has no 'gain', which dice-3 needs: run `make bench-dice`"
    ):
        page()


ROOT = Path(__file__).parents[3]
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"

CLAIMS = [
    pytest.param(claim, record, id=f"{figure.name}: {claim.says}")
    for each in PAPERS
    for figure in each.entries
    if not isinstance(figure, Omitted) and (record := saved(figure, RESULTS / "papers", RESULTS)) is not None
    for claim in figure.claims
]


@pytest.mark.parametrize(("claim", "record"), CLAIMS)
def test_every_claim_that_fails_on_the_committed_page_is_explained(claim: Claim, record: Record) -> None:
    assert claim.check(record).holds or claim.why


def test_the_committed_page_is_what_the_committed_records_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # drawing all pictures takes long: see the next test
    monkeypatch.setattr(
        reproduction, "picture", lambda figure, _: None if figure.draw is None else f"{figure.name}"
    )
    page = tmp_path / "reproduction.md"
    write_markdown(gather(PAPERS, RESULTS / "papers", RESULTS), page)
    assert page.read_text("utf-8") == (ROOT / "docs" / "reproduction.md").read_text("utf-8")
    drawn = {path.name for path in (tmp_path / "reproduction").iterdir()}
    assert drawn == {path.name for path in (ROOT / "docs" / "reproduction").iterdir()}


@pytest.mark.parametrize("name", ["gedik-3", "dkg-2", "kip-shift"])
def test_a_committed_picture_is_what_its_record_gives(name: str) -> None:
    figure = experiments()[name]
    record = saved(figure, RESULTS / "papers", RESULTS)
    assert record is not None
    committed = (ROOT / "docs" / "reproduction" / f"{name}.svg").read_text("utf-8")
    assert picture(figure, record) == committed


def test_every_link_of_the_page_has_its_anchor(tmp_path: Path) -> None:
    run_all(paper(Dice()).experiments, tmp_path)
    text = markdown(tmp_path)
    for name in ("dice-1", "dice-2", "dice-table-1"):
        assert f"[{name}](#{name})" in text
        assert f'<a id="{name}"></a>' in text


def test_the_page_opens_with_the_headlines_and_our_numbers(tmp_path: Path) -> None:
    dice = paper(Dice())
    headline = Headline("the first throw", "21", "dice-2", lambda record: str(record.results["shown"][0]))
    run_all(dice.experiments, tmp_path)
    headed = replace(dice, headlines=(headline,), machine="a table")
    write_markdown(gather([headed], tmp_path, tmp_path), tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text("utf-8")
    shown = compute(dice.experiments[0]).results["shown"][0]
    row = f"| the first throw ([dice-2](#dice-2)) | 21 | {shown} | agrees | full | simulated | generated | "
    assert f"{row}`python -m research run dice-2` |" in text
    assert text.index("Machine: a table") < text.index(row) < text.index("## All figures")


def test_a_figure_whose_record_was_removed_says_why(tmp_path: Path) -> None:
    dice = replace(experiment(Dice()), awaits="the die was replaced")
    papers = [Paper("Someone", "On dice", "Nowhere 2020", (dice,))]
    write_markdown(gather(papers, tmp_path, tmp_path), tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text("utf-8")
    assert "Not yet rerun: the die was replaced. `python -m research run dice-2`" in text
    assert "| not yet rerun |" in text
