"""PySpark's public API is all that unskew uses, but for `unskew.spark.versions.private`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import unskew

ROOT = Path(unskew.__file__).parent
FILES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))}
PRIVATE = "spark/versions/private.py"

PUBLIC_MODULES = {
    "pyspark",
    "pyspark.errors",
    "pyspark.sql",
    "pyspark.sql.datasource",
    "pyspark.sql.functions",
    "pyspark.sql.streaming",
    "pyspark.sql.types",
}
"""The modules under which PySpark's API reference documents the names that a library for Spark SQL may use.

A name is public under the module where the reference has it: `pyspark.sql.streaming.StreamingQuery`, not
`pyspark.sql.streaming.query.StreamingQuery`.
"""

_JVM_OR_RDD = re.compile(
    r"\b(_jvm|_jdf|_jsc|_jsparkSession|_sc|_jc)\b|\.rdd\b|\bRDD\b\(|\.parallelize\(|toJavaRDD"
)


def private_uses(source: str) -> Iterator[str]:
    """The names of PySpark that the source uses and that are not public."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "pyspark":
                    imported.add(alias.asname or "pyspark")
                    if alias.name not in PUBLIC_MODULES:
                        yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pyspark":
            for alias in node.names:
                imported.add(alias.asname or alias.name)
                if not _is_public(str(node.module), alias.name):
                    yield f"{node.module}.{alias.name}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            base = node.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in imported:
                yield f"{ast.unparse(node.value)}.{node.attr}"


def _is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC_MODULES:
        return True
    if module not in PUBLIC_MODULES or name.startswith("_"):
        return False
    exported = getattr(import_module(module), "__all__", None)
    return hasattr(import_module(module), name) if exported is None else name in exported


def test_no_other_module_uses_what_is_not_public() -> None:
    assert len(FILES) > 100
    uses = {name: list(private_uses(path.read_text("utf-8"))) for name, path in FILES.items()}
    assert uses.pop(PRIVATE)
    assert {name: names for name, names in uses.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from pyspark.sql import DataFrame, functions as F", []),
        ("from pyspark.sql.streaming import StatefulProcessor, StreamingQuery", []),
        ("from pyspark.errors import PySparkException", []),
        ("from pyspark import cloudpickle", ["pyspark.cloudpickle"]),
        ("import pyspark.worker", ["pyspark.worker"]),
        ("from pyspark.sql.window import WindowSpec", ["pyspark.sql.window.WindowSpec"]),
        ("def f():\n    from pyspark.util import x", ["pyspark.util.x"]),
        ("from pyspark.sql import types as T\nT._parse_datatype_string('x')", ["T._parse_datatype_string"]),
        ("from pyspark.sql import SparkSession\nSparkSession.active.__doc__", []),
    ],
)
def test_what_counts_as_private(source: str, expected: list[str]) -> None:
    assert list(private_uses(source)) == expected


def test_no_jvm_and_no_rdd() -> None:
    lines = [
        f"{name}:{number}"
        for name, path in FILES.items()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if _JVM_OR_RDD.search(line)
    ]
    assert lines == []
