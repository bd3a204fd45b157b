"""`help` on any public function shows an example, and it runs."""

from __future__ import annotations

import doctest
import inspect
import warnings

import pytest
from pyspark.sql import SparkSession

import unskew
from tests.docs.docstrings import needs_spark

FUNCTIONS = [name for name in unskew.__all__ if inspect.isfunction(getattr(unskew, name))]


def example_of(name: str) -> doctest.DocTest:
    function = getattr(unskew, name)
    return doctest.DocTestParser().get_doctest(
        inspect.getdoc(function) or "",
        {"unskew": unskew},
        f"unskew.{name}",
        inspect.getsourcefile(function),
        0,
    )


def test_every_public_function_has_an_example_that_is_run() -> None:
    assert len(FUNCTIONS) > 15
    assert [name for name in FUNCTIONS if not example_of(name).examples] == []
    assert [name for name in FUNCTIONS if "+SKIP" in (inspect.getdoc(getattr(unskew, name)) or "")] == []


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if needs_spark(example_of(name))])
def test_an_example_on_spark_runs(name: str, spark: SparkSession) -> None:
    test = example_of(name)
    test.globs["spark"] = spark
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    with warnings.catch_warnings():
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_names_complete_in_a_shell() -> None:
    assert set(unskew.__all__) <= set(dir(unskew))
    assert [name for name in dir(unskew) if name.startswith("_") and name != "__version__"] == []
