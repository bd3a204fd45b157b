"""Cases of tests that are tried in `make test`, and those that only `make test-all` tries."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def mostly_thorough(cases: Iterable[Case], quick: Collection[Case]) -> list[object]:
    """The cases, of which all but the `quick` ones are marked `thorough`."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.thorough) for case in cases]
