"""Write docs/llms.txt from the docs: `make docs-llms`.

The format is that of llmstxt.org: a title, what the project is, then links to the pages with a line about each, in the
order of the site's navigation. It ends with every public name and the first line of its docstring, so that a language
model that read only this file knows which calls there are.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

import unskew

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILE = DOCS / "llms.txt"
SITE = "https://github.com/unskew/unskew/blob/main/docs/"
TAKEN_FROM_ELSEWHERE = {"changelog.md", "contributing.md"}
"""Pages that only include a file of the repository."""


def rendered() -> str:
    """The whole file."""
    config = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), yaml.BaseLoader)
    parts = [
        f"# {config['site_name']}",
        f"> {config['site_description']}",
        "A Python library and command line for Apache Spark (PySpark). Where a few keys have most of the records, one "
        "task runs long after all others: unskew measures the keys and places or splits the hot ones. `import unskew` "
        "is the whole API. Rows are those of plain Spark, and where skew does no harm plain Spark does the work.",
        "## Replace\n\n" + "\n".join(replacements()),
    ]
    first = [(title, page) for title, page in pages(config["nav"]) if title != "Home"]
    parts += [f"## Start\n\n{listed(first)}"]
    for entry in config["nav"]:
        ((title, value),) = entry.items()
        if isinstance(value, list):
            parts.append(f"## {title}\n\n{listed(pages(value))}")
    parts.append("## Public names\n\n" + "\n".join(names()))
    return "\n\n".join(parts) + "\n"


def replacements() -> Iterator[str]:
    """What plain Spark and unskew call the same: the table of the page on stragglers."""
    table = re.search(
        r"^\| your job \| write \|.*?\n\|[-|]+\|\n((?:\|.*\n)+)",
        (DOCS / "straggler.md").read_text("utf-8"),
        re.M,
    )
    if table is None:
        raise ValueError("docs/straggler.md has no table that begins with | your job | write |: put it back")
    for row in table[1].splitlines():
        job, fix, _ = (cell.strip() for cell in row.strip("|").split(" | "))
        yield f"- {job} → {_without_links(fix)}"


def pages(nav: list[Any]) -> list[tuple[str, str]]:
    """The pages directly in a part of the navigation."""
    return [(title, page) for entry in nav for title, page in entry.items() if isinstance(page, str)]


def listed(entries: list[tuple[str, str]]) -> str:
    """Links to pages, each with the beginning of its text."""
    return "\n".join(
        f"- [{title}]({SITE}{page}): {summary(DOCS / page)}"
        for title, page in entries
        if page.endswith(".md") and page not in TAKEN_FROM_ELSEWHERE
    )


def summary(page: Path) -> str:
    """The first sentence of prose of a page, or its title if it has none."""
    text = page.read_text("utf-8")
    prose = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.M | re.S)
    prose = re.sub(r"^(?:#|\||!\[| {4}|- |\* ).*$", "", prose, flags=re.M)
    for paragraph in prose.split("\n\n"):
        sentence = re.match(r".{20,}?[.:](?=\s|$)", " ".join(paragraph.split()))
        if sentence and not re.match(r"\d+\. ", sentence[0]):
            return _without_links(sentence[0])
    return text.partition("\n")[0].removeprefix("# ")


def _without_links(text: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def names() -> Iterator[str]:
    """Every public name with what its docstring says first."""
    for name in unskew.__all__:
        doc = inspect.getdoc(getattr(unskew, name)) or _documented_below(name)
        yield f"- `unskew.{name}`: {doc.partition(chr(10) + chr(10))[0].replace(chr(10), ' ')}"


def _documented_below(name: str) -> str:
    """The docstring below a type alias, which Python does not keep."""
    module = Path(inspect.getfile(unskew.groupBy)).parent
    for file in module.glob("*.py"):
        body = ast.parse(file.read_text("utf-8")).body
        for before, after in pairwise(body):
            targets = [ast.unparse(before.target)] if isinstance(before, ast.AnnAssign) else []
            targets += [ast.unparse(t) for t in before.targets] if isinstance(before, ast.Assign) else []
            if name in targets and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return inspect.cleandoc(str(after.value.value))
    return ""


def main() -> None:
    """Write the file."""
    FILE.write_text(rendered(), "utf-8")


if __name__ == "__main__":
    main()
