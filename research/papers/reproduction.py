"""The page with every figure of every paper: what the paper says, what we measured, the verdict, the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from research.papers.drawing import picture
from research.papers.experiment import (
    Benchmarked,
    Experiment,
    Judgement,
    MeasuredFigure,
    Omitted,
    Paper,
    Record,
    judge,
)
from research.papers.records import Task, benchmarked, load
from unskew.report import page

LEAD = (
    "Every figure and table of the papers that unskew implements: what the paper says, what we measured, and whether "
    "the two agree. Parameters are the paper's, except where a figure is marked as the quick set. "
    "`python -m research run` computes the figures, and `python -m research report` writes this page."
)


@dataclass(frozen=True)
class FigureReport:
    """A figure with its record, judgement and picture; only the figure if it was not run."""

    figure: MeasuredFigure
    record: Record | None = None
    judgement: Judgement | None = None
    svg: str | None = None

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.judgement is None:
            return "not run"
        return self.judgement.verdict.value

    @property
    def circumstances(self) -> str:
        """Parameters, seed, commit and machine of the record."""
        if self.record is None:
            return ""
        if isinstance(self.figure, Benchmarked):
            return f"Measured by `{self.figure.command}`, commit {self.record.stamp['commit']}."
        inputs = [f"{name} = {_brief(value)}" for name, value in self.record.parameters.items()]
        machine = self.record.stamp["machine"]
        return (
            f"{'Quick set: ' if self.record.quick else ''}{', '.join(inputs) or 'No parameters'}; "
            f"seed {self.record.seed}. Commit {self.record.stamp['commit']}, {machine['cores']} cores, "
            f"{self.record.times['seconds']:.0f} s."
        )


Entry = FigureReport | Omitted


def gather(papers: Sequence[Paper], folder: Path, benchmarks: Path) -> list[tuple[Paper, list[Entry]]]:
    """Every entry of every paper, measured figures with their saved records."""
    return [
        (paper, [e if isinstance(e, Omitted) else _report(e, folder, benchmarks) for e in paper.entries])
        for paper in papers
    ]


def write_markdown(papers: Sequence[tuple[Paper, list[Entry]]], path: Path) -> None:
    """Write the page, and its pictures into a folder beside it: `page.md` has its pictures in `page/`."""
    pictures = path.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    lines = ["# The papers, reproduced", "", LEAD, "", *_contents(papers)]
    for paper, entries in papers:
        lines += ["", f"## {_citation(paper)}"]
        for entry in entries:
            lines += ["", *_markdown(entry, pictures.name)]
            if isinstance(entry, FigureReport) and entry.svg is not None:
                (pictures / f"{entry.figure.name}.svg").write_text(entry.svg, "utf-8")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def write_html(papers: Sequence[tuple[Paper, list[Entry]]], path: Path) -> None:
    """Write the same as one self-contained HTML page in the style of all reports."""
    sections = [page.Section("All figures", [_summary(papers)])]
    for paper, entries in papers:
        parts: list[page.Part] = []
        for entry in entries:
            parts += _parts(entry)
        sections.append(page.Section(_citation(paper), parts))
    page.write(path, page.render("The papers, reproduced", LEAD, sections))


def saved(figure: Experiment | Benchmarked, folder: Path, benchmarks: Path) -> Record | None:
    """The record of a figure: the full set, or the quick one if there is only that; or the benchmark's results."""
    if isinstance(figure, Benchmarked):
        return benchmarked(figure, benchmarks)
    return load(Task(figure, False, folder)) or load(Task(figure, True, folder))


def _report(figure: Experiment | Benchmarked, folder: Path, benchmarks: Path) -> FigureReport:
    record = saved(figure, folder, benchmarks)
    if record is None:
        return FigureReport(figure)
    try:
        return FigureReport(figure, record, judge(figure, record), picture(figure, record))
    except KeyError as error:
        if not isinstance(figure, Benchmarked):
            raise
        # a benchmark saves as it goes, so its file may be incomplete
        raise ValueError(
            f"{figure.benchmark}.json has no {error}, which {figure.name} needs: run `{figure.command}` to its end"
        ) from error


def _citation(paper: Paper) -> str:
    return f"{paper.authors}: {paper.title}. {paper.venue}"


def _brief(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _overview(papers: Sequence[tuple[Paper, list[Entry]]]) -> list[dict[str, str]]:
    return [
        {"name": entry.name, "title": entry.title, "verdict": "not computed"}
        if isinstance(entry, Omitted)
        else {"name": entry.figure.name, "title": entry.figure.title, "verdict": entry.verdict}
        for _, entries in papers
        for entry in entries
    ]


def _contents(papers: Sequence[tuple[Paper, list[Entry]]]) -> list[str]:
    rows = [f"| {row['name']} | {_cell(row['title'])} | {row['verdict']} |" for row in _overview(papers)]
    return ["| Figure | | Verdict |", "|---|---|---|", *rows]


def _markdown(entry: Entry, pictures: str) -> list[str]:
    if isinstance(entry, Omitted):
        return [f"### {entry.name}: {entry.title}", "", f"Not computed: {entry.why}"]
    figure = entry.figure
    lines = [f"### {figure.name}: {figure.title}", "", f"**{entry.verdict.capitalize()}.**"]
    lines += [figure.setting] * bool(figure.setting)
    if entry.judgement is None:
        return lines
    lines += ["", "| The paper says | Measured | Holds |", "|---|---|---|"]
    lines += [
        f"| {_cell(claim.says)} | {_cell(fact.measured)} | {'yes' if fact.holds else '**no**'} |"
        for claim, fact in entry.judgement.facts
    ]
    for reason in _reasons(entry.judgement):
        lines += ["", reason]
    if entry.svg is not None:
        lines += ["", f"![{figure.title}]({pictures}/{figure.name}.svg)"]
    return [*lines, "", f"<sub>{entry.circumstances}</sub>"]


def _parts(entry: Entry) -> list[page.Part]:
    if isinstance(entry, Omitted):
        return [page.Text(f"{entry.name}: {entry.title}. Not computed: {entry.why}")]
    figure = entry.figure
    heading = f"{figure.name}: {figure.title}. {entry.verdict.capitalize()}. {figure.setting}"
    parts: list[page.Part] = [page.Text(heading)]
    if entry.judgement is None:
        return parts
    columns = [
        page.Column("says", "the paper says"),
        page.Column("measured", "measured"),
        page.Column("holds", "holds"),
    ]
    rows = [
        {"says": claim.says, "measured": fact.measured, "holds": "yes" if fact.holds else "no"}
        for claim, fact in entry.judgement.facts
    ]
    parts.append(page.Table(columns, rows))
    parts += [page.Text(reason) for reason in _reasons(entry.judgement)]
    if entry.svg is not None:
        parts.append(page.Picture(entry.svg, figure.title))
    return [*parts, page.Text(entry.circumstances)]


def _reasons(judgement: Judgement) -> list[str]:
    """Why claims do not hold, each reason once."""
    reasons = [claim.why for claim, fact in judgement.facts if not fact.holds and claim.why]
    return [f"Why: {reason}" for reason in dict.fromkeys(reasons)]


def _summary(papers: Sequence[tuple[Paper, list[Entry]]]) -> page.Table:
    columns = [
        page.Column("name", "figure"),
        page.Column("title", "what it shows"),
        page.Column("verdict", "verdict"),
    ]
    return page.Table(columns, _overview(papers))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
