from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unskew.jobs.code import load_function

SOURCE = """
LIMIT = 3

def score(rows):
    return rows

class Scores:
    @staticmethod
    def best(rows):
        return rows
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module; Python forgets both afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "scores_of_a_test.py").write_text(SOURCE)
    (tmp_path / "needy_of_a_test.py").write_text("import no_such_package")
    return tmp_path


def test_a_function_beside_the_job_file(folder: Path) -> None:
    assert load_function("scores_of_a_test:score", folder)(7) == 7
    assert load_function("scores_of_a_test:Scores.best", folder)(8) == 8
    assert load_function("math:sqrt", folder)(9) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scores_of_a_test:scor", "there is no 'scor' in scores_of_a_test: did you mean 'score'?"),
        ("scores_of_a_test:LIMIT", "not a function but int"),
        ("score_of_a_test:score", "no module 'score_of_a_test' in .*: did you mean 'scores_of_a_test'?"),
        ("needy_of_a_test:score", "it imports 'no_such_package', which is not installed"),
    ],
)
def test_a_function_that_is_not_there(folder: Path, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_function(name, folder)
