"""Shared test set-up: the cases that hypothesis draws, Spark, several hosts, a browser for live pages.

The fixtures that a test requests decide its markers: `spark` and `own_spark` give the marker `spark`, `several_hosts`
gives the marker `hosts`. So `pytest -m "not spark"` runs on a machine without Java, and none is marked by hand.
"""

from __future__ import annotations

import os
import signal
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
# To search for new counterexamples: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A shell starts a background job with SIGINT ignored. Child processes inherit that, and some tests interrupt theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MARKED_BY_FIXTURE = {
    "spark": ("spark",),
    "own_spark": ("spark", "processes"),
    "several_hosts": ("hosts",),
}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium or Chrome is installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The page in a plain window; any problem that its console reports fails the test."""
    chromium.look()
    chromium.problems.clear()
    yield chromium
    problems = list(chromium.problems)
    chromium.open("about:blank")
    assert problems == []


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A Spark whose Java and whose Python workers start quickly."""
    from tests.spark.session import use_cached_imports, use_one_compiler

    use_cached_imports(tmp_path_factory.mktemp("home"))
    use_one_compiler()


@pytest.fixture(scope="session")
def spark(spark_home: None) -> Iterator[SparkSession]:
    """The one session of this test process."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.fail("each worker would start a Spark of its own: run the Spark tests without -n")

    from tests.spark.session import make_session

    session = make_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def own_spark(spark_home: None) -> None:
    """For tests that start a Spark of their own in another process: they do not differ on Connect."""
    if os.environ.get("UNSKEW_TEST_REMOTE"):
        pytest.skip("starts a Spark of its own")


@pytest.fixture(scope="session")
def several_hosts() -> None:
    """For tests that set up several hosts on this machine, which takes root."""
    from benchmarks.network import why_not

    if reason := why_not():
        pytest.skip(reason)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by the fixtures that it requests, directly or through other fixtures."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            for marker in MARKED_BY_FIXTURE.get(fixture, ()):
                item.add_marker(marker)
        for since in item.iter_markers("since"):
            _skip_if_older(item, *since.args)
    if not os.environ.get("UNSKEW_TEST_ALL") and not any("::" in argument for argument in config.args):
        on_spark = [item for item in items if item.get_closest_marker("spark")]
        left_out = [item for item in on_spark if item.get_closest_marker("thorough")]
        left_out += _repeated_values([item for item in on_spark if item not in left_out])
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _skip_if_older(item: pytest.Item, version: str, what: str) -> None:
    """Skip the test if the installed Spark is older than this version."""
    from importlib.metadata import version as installed

    numbers = [tuple(map(int, text.split(".")[:2])) for text in (installed("pyspark"), version)]
    if numbers[0] < numbers[1]:
        item.add_marker(pytest.mark.skip(reason=f"{what}: since Spark {version}"))


def _repeated_values(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases of a test all of whose parameters have values that earlier cases have tried.

    So every value runs once; `make test-all` tries every combination. On Connect the first case is enough, unless the
    test is marked `connect(every_value=True)`: Spark gets the same expressions however it is reached.
    """
    remote = bool(os.environ.get("UNSKEW_TEST_REMOTE"))
    tried = set()
    repeated = []
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters is None:
            continue
        test = item.nodeid.partition("[")[0]
        marker = item.get_closest_marker("connect")
        if remote and not (marker and marker.kwargs.get("every_value")):
            values = {(test, "", "")}
        else:
            values = {(test, name, repr(value)) for name, value in parameters.params.items()}
        if values <= tried:
            repeated.append(item)
        tried |= values
    return repeated
