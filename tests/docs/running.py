"""Runs what a page shows."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from tests.docs.given import carry_out
from tests.docs.pages import Block, name


def run(block: Block, page: Path, space: dict[str, Any], folder: Path) -> None:
    """Run a block with /data moved into the test's folder, and compute what it describes."""
    text = block.text.replace("/data/", f"{folder}/data/")
    before = dict(space)
    for statement in ast.parse("\n" * (block.line - 1) + text, name(page)).body:
        if isinstance(statement, ast.Expr):
            code = compile(ast.Expression(statement.value), name(page), "eval")
            carry_out(eval(code, space), folder)
        else:
            exec(compile(ast.Module([statement], []), name(page), "exec"), space)
    for key, value in space.items():
        if before.get(key) is not value:
            carry_out(value, folder)
