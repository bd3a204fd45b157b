import pytest

from unskew.report.watch import journal


@pytest.fixture(autouse=True)
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not wait until a look at the journal is stale."""
    monkeypatch.setattr(journal, "FRESH", 0.0)
