"""Doctests that need a Spark session run in tests/docs/test_docstrings.py, which has one, and not with the others."""

from __future__ import annotations

import pytest
from _pytest.doctest import DoctestItem

from tests.docs.docstrings import needs_spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the doctests that would miss `spark`."""
    items[:] = [item for item in items if not (isinstance(item, DoctestItem) and needs_spark(item.dtest))]
