"""The public API as a type checker and an editor see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import unskew

ROOT = Path(__file__).parents[1]


def test_calls_type_check_to_their_end() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "tests/typed_calls.py", "examples"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_dir_lists_every_public_name_and_each_resolves() -> None:
    assert set(unskew.__all__) <= set(dir(unskew))
    assert [name for name in unskew.__all__ if getattr(unskew, name) is None] == []
    assert len(set(unskew.__all__)) == len(unskew.__all__)
