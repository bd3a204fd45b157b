"""What the pages for users say that can be run: their Python blocks, and their commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")]))

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+?) -->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S
)
_INDENTED = re.compile(r"^ {4}(\S.*)$", re.M)
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it starts, its language, and the reason if it is not run."""

    line: int
    language: str
    text: str
    reason: str | None


def name(page: Path) -> str:
    """The page as a reader knows it."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(text.count("\n", 0, match.start("text")) + 1, match["language"], match["text"], match["reason"])
        for match in _BLOCK.finditer(text)
    ]


def commands(page: Path) -> Iterator[list[str]]:
    """Every command line of a page as its words: those in blocks, indented or fenced, and those in the text."""
    text = page.read_text("utf-8")
    prose = _BLOCK.sub("", text)
    lines = [line for block in blocks(page) if block.language != "python" for line in block.text.splitlines()]
    for line in [*lines, *_INDENTED.findall(prose), *_SPAN.findall(prose)]:
        if re.match(r"(unskew|make|pip install) ", line):
            yield shlex.split(line, comments=True)
