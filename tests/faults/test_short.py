"""A slice of the campaign (`make test-faults` runs all of it)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cases import short


@pytest.mark.faults
@pytest.mark.usefixtures("own_spark")
def test_a_short_slice(tmp_path: Path) -> None:
    outcomes = list(short(tmp_path))
    assert len(outcomes) == 3
    assert [o.line() for o in outcomes if o.kind != "ok"] == []
