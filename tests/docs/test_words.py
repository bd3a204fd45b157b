"""The docs quote only what is in the code."""

from __future__ import annotations

import ast
import re

import unskew
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"


def messages() -> list[str]:
    """Every message that is raised, or made for that by a function, with … in place of each value."""
    templates = []
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                templates += [_template(argument) for argument in node.exc.args]
            if isinstance(node, ast.Return | ast.Yield):
                made = node.value
                is_error = isinstance(made, ast.Call) and ast.unparse(made.func) == "ValueError"
                templates += [
                    _template(argument) for argument in (made.args if is_error else [made]) if argument
                ]
    return templates


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "…"


def test_every_error_that_is_explained_is_raised() -> None:
    explained = re.findall(r"^\| `([^`]+)` \|", (DOCS / "errors.md").read_text("utf-8"), re.M)
    assert len(explained) > 30
    raised = messages()
    assert [error for error in explained if not any(error.strip("…") in message for message in raised)] == []


def test_every_public_name_is_in_the_reference() -> None:
    documented = re.findall(r"^::: unskew\.(\w+)$", (DOCS / "reference.md").read_text("utf-8"), re.M)
    assert sorted(documented) == sorted(unskew.__all__)
