"""The commands on the pages exist, and take the options that are shown."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from tests.docs.pages import PAGES, ROOT, commands, name
from unskew.cli import app
from unskew.jobs.toml import parsed

ALL = [(page, words) for page in PAGES for words in commands(page)]


def commands_of(program: str) -> list[object]:
    """The commands of one program, each with the page it is on."""
    return [
        pytest.param(words, id=f"{name(page)}: {' '.join(words)}")
        for page, words in ALL
        if words[0] == program
    ]


@pytest.mark.parametrize("words", commands_of("unskew"))
def test_the_command_line_takes_it(words: list[str]) -> None:
    group = get_command(app)
    with group.make_context("unskew", [], resilient_parsing=True) as context:
        _, command, arguments = group.resolve_command(context, words[1:])
        # a page may only name a command, without the arguments it needs
        command.make_context(command.name, arguments, resilient_parsing=not arguments)


@pytest.mark.parametrize("words", commands_of("make"))
def test_the_makefile_has_the_target(words: list[str]) -> None:
    targets = set(re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(words[1:]) <= targets


@pytest.mark.parametrize("words", commands_of("pip"))
def test_the_extras_exist(words: list[str]) -> None:
    extras = parsed((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    named = [extra for word in words for part in re.findall(r"\[(.+)\]", word) for extra in part.split(",")]
    assert named or "unskew" in words
    assert set(named) <= set(extras)


def test_there_are_commands_to_check() -> None:
    assert {words[0] for _, words in ALL} == {"unskew", "make", "pip"}
