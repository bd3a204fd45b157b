"""Every use of PySpark that is not public API does what unskew relies on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from unskew.spark.versions import private

PAIR = T.StructType([T.StructField("k", T.StringType()), T.StructField("x", T.LongType())])
ROWS = pa.table({"k": ["a", "b"], "x": [1, 2]})


def test_a_module_pickled_by_value_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_here")
    exec("def double(x):\n    return 2 * x", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    private.pickle_by_value(module)
    pickled = cloudpickle.dumps(module.double)
    monkeypatch.delitem(sys.modules, "only_here")
    assert cloudpickle.loads(pickled)(21) == 42


@pytest.mark.usefixtures("own_spark")
def test_a_context_whose_jvm_writes_to_a_log(tmp_path: Path) -> None:
    script = (
        "import sys; from pyspark import SparkConf; from unskew.spark.versions.private import context_with_log\n"
        "local = [('spark.driver.bindAddress', '127.0.0.1'), ('spark.driver.host', '127.0.0.1')]\n"
        "conf = SparkConf().setMaster('local[1]').setAppName('log').setAll([*local, ('spark.ui.enabled', 'false')])\n"
        "with open(sys.argv[1], 'wb') as log:\n"
        "    print(context_with_log(conf, log).defaultParallelism)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "log")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr
    assert "WARN" not in done.stderr
    assert "spark" in (tmp_path / "log").read_text().lower()


def test_schemas_are_translated_both_ways() -> None:
    schema = T.StructType([*PAIR.fields, T.StructField("t", T.TimestampType())])
    arrow = private.to_arrow_schema(schema, timezone="UTC")
    assert arrow == pa.schema([("k", pa.string()), ("x", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
    assert private.from_arrow_schema(arrow) == schema


def test_the_schema_of_arrow_results_may_have_large_strings() -> None:
    assert private.arrow_fields(PAIR, large=False).types == [pa.string(), pa.int64()]
    assert private.arrow_fields(PAIR, large=True).types == [pa.large_string(), pa.int64()]


@pytest.mark.parametrize(("int_extension", "dtype"), [(False, np.dtype("float64")), (True, pd.Int64Dtype())])
def test_arrow_rows_become_pandas_columns(int_extension: bool, dtype: object) -> None:
    rows = pa.table({"k": ["a", "b"], "x": pa.array([1, None], pa.int64())})
    k, x = private.to_pandas(rows, "UTC", PAIR, int_extension=int_extension)
    assert k.tolist() == ["a", "b"]
    assert x.dtype == dtype


def test_pandas_results_become_arrow_rows() -> None:
    batch = private.to_arrow(
        pd.DataFrame({"x": ["1", "2"], "k": ["a", "b"]}),
        PAIR,
        timezone="UTC",
        safe=True,
        cast_values=True,
        large=False,
        by_name=True,
        int_to_decimal=False,
    )
    assert batch.to_pydict() == ROWS.to_pydict()
    assert batch.schema.types == [pa.string(), pa.int64()]


def test_arrow_results_are_put_in_the_order_of_the_schema() -> None:
    assert private.enforce_schema(ROWS.select(["x", "k"]), ROWS.schema, by_name=True).equals(ROWS)
    with pytest.raises(PySparkRuntimeError, match="RESULT_COLUMN"):
        private.enforce_schema(ROWS.select(["x"]), ROWS.schema, by_name=True)


def test_a_frame_that_does_not_fit_is_refused() -> None:
    private.verify_frame(pd.DataFrame({"k": ["a"], "x": [1]}), PAIR, by_name=True)
    with pytest.raises(PySparkRuntimeError, match="Missing: x"):
        private.verify_frame(pd.DataFrame({"k": ["a"]}), PAIR, by_name=True)


def test_what_is_not_a_table_is_refused() -> None:
    assert private.verify_table(ROWS) is ROWS
    with pytest.raises(PySparkTypeError, match=r"pyarrow\.Table"):
        private.verify_table(ROWS.to_pandas())


def test_what_is_not_an_iterator_of_batches_is_refused() -> None:
    batches = ROWS.to_batches()
    assert list(private.verify_batches(iter(batches))) == batches
    for wrong in (ROWS, iter([ROWS])):
        with pytest.raises(PySparkTypeError, match=r"iterator of pyarrow\.RecordBatch"):
            list(private.verify_batches(wrong))


def test_stop_iteration_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        private.fail_on_stop_iteration(lambda: next(iter([])))()


@pytest.mark.connect
def test_a_connect_client_knows_that_it_is_one(spark: SparkSession) -> None:
    assert private.is_remote() == bool(os.environ.get("UNSKEW_TEST_REMOTE"))
