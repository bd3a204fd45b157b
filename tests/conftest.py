"""Shared test set-up: hypothesis draws the same cases unless told otherwise; Spark; a browser for live pages.

A test needs Spark if it asks for one of the fixtures `spark` and `own_spark`: that gives it the marker `spark`, so
`pytest -m "not spark"` runs on a machine without Java.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.report.watch.browser import CHROMIUM, Browser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A failure must repeat on the next run, and a slow machine must not fail a property.
settings.register_profile(
    "ci", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
# For looking for new counterexamples: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium or Chrome is installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The page in a plain window; whatever its console complains of fails the test."""
    chromium.look()
    chromium.problems.clear()
    yield chromium
    problems = list(chromium.problems)
    chromium.open("about:blank")
    assert problems == []


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of this test process."""
    from tests.spark.session import make_session

    session = make_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def own_spark() -> None:
    """For tests that start a Spark of their own in another process: they do not differ on Connect."""
    if os.environ.get("UNSKEW_TEST_REMOTE"):
        pytest.skip("starts a Spark of its own")


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the tests that need Spark by the fixtures they ask for."""
    for item in items:
        if {"spark", "own_spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("spark")
