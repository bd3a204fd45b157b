"""Shared test set-up: hypothesis draws the same cases everywhere unless told otherwise; a browser for live pages."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.report.watch.browser import CHROMIUM, Browser

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
