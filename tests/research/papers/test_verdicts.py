"""Every claim that holds on the committed page can fail: some change of its record makes it fail."""

from __future__ import annotations

import copy
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from research.papers.experiment import (
    Claim,
    Fact,
    MeasuredFigure,
    Omitted,
    Record,
    Verdict,
    judge,
    number,
    shape,
)
from research.papers.records import Task, load
from research.papers.registry import PAPERS, experiments
from research.papers.reproduction import saved

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"

FIGURES = [
    pytest.param(figure, record, id=figure.name)
    for paper in PAPERS
    for figure in paper.entries
    if not isinstance(figure, Omitted) and (record := saved(figure, RESULTS / "papers", RESULTS)) is not None
]


IMPOSSIBLE = (ArithmeticError, ValueError, TypeError, LookupError, RuntimeWarning)
"""What a check may raise for a record that no run could give."""


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def mapped(value: Any, change: Callable[[float], float], parameters: set[str]) -> Any:
    """The value with every number changed, except those that repeat a parameter, such as a point of the x axis."""
    if isinstance(value, dict):
        return {k: v if k in parameters else mapped(v, change, parameters) for k, v in value.items()}
    if isinstance(value, list):
        return [mapped(v, change, parameters) for v in value]
    return change(value) if is_number(value) else value


def turned(value: Any, parameters: set[str], key: str = "") -> Any:
    """The value with every list of numbers or of rows' measures in reverse: trends and orders are inverted."""
    if key in parameters:
        return value
    if isinstance(value, dict):
        return {k: turned(v, parameters, k) for k, v in value.items()}
    if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
        kept = [{k: v for k, v in row.items() if k in parameters} for row in value]
        others = [{k: v for k, v in row.items() if k not in parameters} for row in value]
        return [a | b for a, b in zip(kept, reversed(others), strict=True)]
    if isinstance(value, list):
        return value[::-1]
    return value


def exchanged(value: Any) -> Any:
    """Siblings of the same shape trade places: what was said of one algorithm is now said of another."""
    if isinstance(value, dict):
        names = list(value)
        shapes = {type(value[name]) for name in names}
        content = [exchanged(value[name]) for name in names]
        if len(names) > 1 and len(shapes) == 1:
            content = content[1:] + content[:1]
        return dict(zip(names, content, strict=True))
    return [exchanged(v) for v in value] if isinstance(value, list) else value


def mutations(record: Record) -> Iterator[Record]:
    """The record with other results: everything scaled, made equal, inverted, exchanged, scrambled."""
    fixed = {*record.parameters, "k", "slots", "number", "z", "learned", "runs", "each"}
    for change in (
        lambda x: 10 * x,
        lambda x: 1e4 * x,
        lambda x: x / 10,
        lambda x: -x,
        lambda _: 1,
        lambda _: 0,
        lambda x: 1 / (x or 1),
    ):
        yield with_(record, lambda value, c=change: mapped(value, c, fixed))
    yield with_(record, lambda value: turned(value, fixed))
    yield with_(record, exchanged)
    yield with_(record, lambda value: exchanged(exchanged(value)))
    for seed in range(20):
        dice = random.Random(seed)
        yield with_(record, lambda value, d=dice: mapped(value, lambda x: x * 10 ** d.uniform(-1, 1), fixed))


def with_(record: Record, change: Callable[[Any], Any]) -> Record:
    results, times = (change(copy.deepcopy(value)) for value in (record.results, record.times))
    return replace(record, results=results, times=times)


def fails(claim: Claim, record: Record) -> bool:
    for mutation in mutations(record):
        try:
            if claim.check(mutation).holds is False:
                return True
        except IMPOSSIBLE:
            # no record could look like this
            continue
    return False


CANNOT_BE_REFUTED = {
    "hash is not affected by locality": "one run per point: a spread may be noise, so it is shown or undecided",
}


@pytest.mark.parametrize(("figure", "record"), FIGURES)
def test_every_claim_fails_on_a_record_that_contradicts_it(figure: MeasuredFigure, record: Record) -> None:
    unshakable = [
        claim.says
        for claim in figure.claims
        if claim.check(record).holds and claim.says not in CANNOT_BE_REFUTED and not fails(claim, record)
    ]
    assert not unshakable


@pytest.mark.parametrize(("figure", "record"), FIGURES)
def test_a_verdict_changes_with_its_record(figure: MeasuredFigure, record: Record) -> None:
    verdict = judge(figure, record).verdict
    if verdict not in (Verdict.AGREES, Verdict.SHAPE):
        return
    others = set()
    for mutation in mutations(record):
        try:
            others.add(judge(figure, mutation).verdict)
        except IMPOSSIBLE:
            continue
    assert others - {verdict}


@pytest.mark.parametrize(("figure", "record"), FIGURES)
def test_a_reason_is_made_from_the_record(figure: MeasuredFigure, record: Record) -> None:
    for claim in figure.claims:
        if not claim.check(record).holds:
            assert claim.reason(record)


def commits() -> dict[str, list[str]]:
    records = sorted((RESULTS / "papers").glob("*.json"))
    stamps = {path.name: json.loads(path.read_text("utf-8"))["stamp"] for path in records}
    return {name: stamp["commit"].split(", ") for name, stamp in stamps.items()}


def test_no_record_was_made_with_uncommitted_changes() -> None:
    assert [name for name, names in commits().items() if any(not c.isalnum() for c in names)] == []


def test_every_record_names_a_commit_that_exists() -> None:
    root = str(RESULTS.parents[1])
    shallow = subprocess.run(
        ["git", "-C", root, "rev-parse", "--is-shallow-repository"],
        capture_output=True,
        text=True,
        check=False,
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("not a git tree with its whole history")
    for name, names in commits().items():
        for commit in names:
            found = subprocess.run(["git", "-C", root, "cat-file", "-e", f"{commit}^{{commit}}"], check=False)
            assert found.returncode == 0, f"{name} names {commit}"


def test_every_record_belongs_to_an_experiment_and_has_its_parameters() -> None:
    stems = {path.stem for path in (RESULTS / "papers").glob("*.json")}
    loaded = {
        record.name + (".quick" if quick else "")
        for experiment in experiments().values()
        for quick in (False, True)
        if (record := load(Task(experiment, quick, RESULTS / "papers"))) is not None
    }
    assert stems == loaded


@pytest.mark.parametrize(
    ("shapes", "numbers", "verdict"),
    [
        ([True], [True], Verdict.AGREES),
        ([True], [False], Verdict.SHAPE),
        ([True], [None], Verdict.SHAPE),
        ([True, None], [True], Verdict.INCONCLUSIVE),
        ([True, None, False], [True], Verdict.DIFFERS),
        ([], [False], Verdict.DIFFERS),
        ([], [None], Verdict.INCONCLUSIVE),
        ([], [True, False], Verdict.SHAPE),
    ],
)
def test_what_cannot_be_decided_is_inconclusive(
    shapes: list[bool | None], numbers: list[bool | None], verdict: Verdict
) -> None:
    made = ((shape, shapes), (number, numbers))
    claims = [make("", lambda _, h=holds: Fact(h, "")) for make, answers in made for holds in answers]
    record = Record("x", {}, 0, {}, {}, {}, quick=False)
    assert judge(MeasuredFigure(name="x", title="", claims=tuple(claims)), record).verdict is verdict
