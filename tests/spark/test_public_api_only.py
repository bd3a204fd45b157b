"""The Spark layer keeps to PySpark's public API, so that it runs on Spark Connect, too."""

from __future__ import annotations

import re
from pathlib import Path

import unskew

_FORBIDDEN = re.compile(
    r"\b(_jvm|_jdf|_jsc|_jsparkSession|_sc|_jc)\b|\.rdd\b|\bRDD\b\(|\.parallelize\(|toJavaRDD"
)


def test_no_jvm_and_no_rdd() -> None:
    root = Path(unskew.__file__).parent
    files = sorted(root.rglob("*.py"))
    assert len(files) > 20
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _FORBIDDEN.search(line)
    ]
    assert found == []
