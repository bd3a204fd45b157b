from __future__ import annotations

import pytest

from unskew.papers.dkg.instances import COEFFICIENTS, TABLE, fit
from unskew.papers.running import compute


def test_table_1_of_the_paper() -> None:
    record = compute(COEFFICIENTS, runs=25)
    found = {name: fit(record, name) for name in TABLE}
    assert found["SIA"] == pytest.approx((100, -100))
    assert found["O-apx"] == pytest.approx((60.8, -100), abs=0.5)
    assert found["DKG"] == pytest.approx(found["O-apx"], abs=0.1)
    assert found["DKG worst"][0] < 63
    assert found["Universal"] == pytest.approx((60.7, -60.7), abs=6)
    assert found["Universal worst"][0] > 70
