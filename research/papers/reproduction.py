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
    "Every figure and table of the papers that unskew implements: what the paper says, what we got, and whether the "
    "two agree. A figure *agrees* if every claim holds, agrees *in shape* if only numbers do not, *differs* if an "
    "order or a trend does not hold, and is *inconclusive* if our runs cannot decide one. *Full* means the paper's "
    "parameters, or ours where the paper gives none; *reduced* that there is less data than in the paper even so; "
    "*quick* fewer runs or smaller sizes. *Simulated* numbers are counts without a clock, *measured* ones times taken "
    "here, *modelled* ones times on the paper's machines computed from what was measured here."
)

READINGS = "What the texts leave open and how we read them is in [Readings and errata](readings.md)."

HOLDS = {True: "yes", False: "**no**", None: "undecided"}


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
            return "not yet rerun" if self.figure.awaits else "not run"
        return self.judgement.verdict.value

    @property
    def set(self) -> str:
        """Full or quick, and with how many runs."""
        if self.record is None:
            return ""
        size = "quick" if self.record.quick else "full, reduced" if self.figure.reduced else "full"
        runs = self.record.parameters.get("runs")
        return f"{size}, {runs} runs" if isinstance(runs, int) else size

    @property
    def command(self) -> str:
        """What computes it."""
        if isinstance(self.figure, Benchmarked):
            return self.figure.command
        quick = " --quick" if self.record is not None and self.record.quick else ""
        return f"python -m research run {self.figure.name}{quick}"

    @property
    def circumstances(self) -> str:
        """Parameters, seed, commit and machine of the record."""
        if self.record is None:
            return ""
        if isinstance(self.figure, Benchmarked):
            return f"Measured by `{self.figure.command}`, commit {_commit(self.record)}."
        inputs = [f"{name} = {_brief(value)}" for name, value in self.record.parameters.items()]
        machine = self.record.stamp["machine"]
        return (
            f"{'Quick set: ' if self.record.quick else ''}{', '.join(inputs) or 'No parameters'}; "
            f"seed {self.record.seed}. Commit {_commit(self.record)}, {machine['cores']} cores, "
            f"{self.record.times['seconds']:.0f} s."
        )


Entry = FigureReport | Omitted


def _commit(record: Record) -> str:
    """The commit that made a record; says so if files had changed since."""
    commit: str = record.stamp["commit"]
    return commit.replace("-dirty", " with uncommitted changes, to be run again")


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
    lines = ["# The papers, reproduced", "", LEAD, "", READINGS]
    for paper, entries in papers:
        if paper.headlines:
            lines += ["", f"**{_citation(paper)}**", ""]
            lines += [f"Machine: {paper.machine}", ""] * bool(paper.machine)
            lines += _headlines(paper, entries)
    lines += ["", "## All figures", "", *_contents(papers)]
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
    return [_row(entry) for _, entries in papers for entry in entries]


def _row(entry: Entry) -> dict[str, str]:
    if isinstance(entry, Omitted):
        return {"name": entry.name, "title": entry.title, "verdict": "not computed"} | dict.fromkeys(
            ("set", "basis", "data", "command"), ""
        )
    return {
        "name": entry.figure.name,
        "title": entry.figure.title,
        "verdict": entry.verdict,
        "set": entry.set,
        "basis": entry.figure.basis.value,
        "data": entry.figure.data.value,
        "command": entry.command,
    }


def _headlines(paper: Paper, entries: list[Entry]) -> list[str]:
    """What the paper is known for, its numbers beside ours."""
    reports = {e.figure.name: e for e in entries if isinstance(e, FigureReport)}
    lines = [
        "| Headline | Paper | Ours | Verdict | Set | Basis | Data | Command |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for headline in paper.headlines:
        report = reports[headline.figure]
        row = _row(report)
        ours = "" if report.record is None else headline.ours(report.record)
        lines.append(
            f"| {_cell(headline.says)} ([{headline.figure}](#{headline.figure})) | {_cell(headline.paper)} "
            f"| {_cell(ours)} | {row['verdict']} | {row['set']} | {row['basis']} | {row['data']} | `{row['command']}` |"
        )
    return lines


def _contents(papers: Sequence[tuple[Paper, list[Entry]]]) -> list[str]:
    rows = [
        f"| [{row['name']}](#{row['name']}) | {_cell(row['title'])} | {row['verdict']} | {row['set']} | {row['basis']} "
        f"| {row['data']} |"
        for row in _overview(papers)
    ]
    return ["| Figure | | Verdict | Set | Basis | Data |", "|---|---|---|---|---|---|", *rows]


def _markdown(entry: Entry, pictures: str) -> list[str]:
    if isinstance(entry, Omitted):
        return [_anchor(entry.name), "", f"### {entry.name}: {entry.title}", "", f"Not computed: {entry.why}"]
    figure = entry.figure
    heading = f"### {figure.name}: {figure.title}"
    verdict = (
        f"**{entry.verdict.capitalize()}.** {figure.basis.value.capitalize()}; {figure.data.value} data."
    )
    lines = [_anchor(figure.name), "", heading, "", verdict]
    lines += [figure.setting] * bool(figure.setting)
    if entry.judgement is None:
        return [*lines, "", f"Not yet rerun: {figure.awaits}. `{entry.command}`"] if figure.awaits else lines
    lines += ["", "| The paper says | Measured | Holds |", "|---|---|---|"]
    lines += [
        f"| {_cell(claim.says)} | {_cell(fact.measured)} | {HOLDS[fact.holds]} |"
        for claim, fact in entry.judgement.facts
    ]
    for reason in _reasons(entry):
        lines += ["", reason]
    if entry.svg is not None:
        lines += ["", f"![{figure.title}]({pictures}/{figure.name}.svg)"]
    return [*lines, "", f"<sub>{entry.circumstances}</sub>"]


def _anchor(name: str) -> str:
    """What links point to, on the site and on GitHub alike."""
    return f'<a id="{name}"></a>'


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
        {"says": claim.says, "measured": fact.measured, "holds": HOLDS[fact.holds].strip("*")}
        for claim, fact in entry.judgement.facts
    ]
    parts.append(page.Table(columns, rows))
    parts += [page.Text(reason) for reason in _reasons(entry)]
    if entry.svg is not None:
        parts.append(page.Picture(entry.svg, figure.title))
    return [*parts, page.Text(entry.circumstances)]


def _reasons(report: FigureReport) -> list[str]:
    """Why claims do not hold, each reason once."""
    if report.judgement is None or report.record is None:
        return []
    record = report.record
    reasons = [claim.reason(record) for claim, fact in report.judgement.facts if not fact.holds and claim.why]
    return [f"Why: {reason}" for reason in dict.fromkeys(reasons)]


def _summary(papers: Sequence[tuple[Paper, list[Entry]]]) -> page.Table:
    columns = [
        page.Column("name", "figure"),
        page.Column("title", "what it shows"),
        page.Column("verdict", "verdict"),
        page.Column("set", "set"),
        page.Column("basis", "basis"),
        page.Column("data", "data"),
        page.Column("command", "command"),
    ]
    return page.Table(columns, _overview(papers))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
