import json
import subprocess
import sys

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
import unskew, unskew.core
for module in pkgutil.walk_packages(unskew.core.__path__, "unskew.core."):
    importlib.import_module(module.name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_the_core_loads_neither_spark_nor_pandas() -> None:
    # A new process: other tests of this one may have imported both already.
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING], check=True, capture_output=True, text=True
    )
    assert {"pyspark", "pandas", "py4j"}.isdisjoint(json.loads(done.stdout))
