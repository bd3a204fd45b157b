"""The Spark of the tests: classic, or Spark Connect where UNSKEW_TEST_REMOTE is set."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

# Many small queries: the first compiler is enough, and two cores have no time for more. Alone, it gets 48 MB for its
# code, which Spark's generated classes fill within minutes; from then on Java clears and compiles in turn.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=512m")


def use_cached_imports(folder: Path) -> None:
    """Let Spark's Python workers import the installed PySpark, whose bytecode is cached, in a third of the time.

    Otherwise they import it from a zip archive and compile it again, in every worker and in every batch of a stream.
    The code is the same; this Spark home lacks only the archive.
    """
    installed, home = Path(pyspark.__file__).parent, folder / "spark"
    (home / "python" / "lib").mkdir(parents=True)
    for source in [
        *installed.iterdir(),
        *(installed / "python").iterdir(),
        *(installed / "python/lib").iterdir(),
    ]:
        target = home / source.relative_to(installed)
        if source.name != "pyspark.zip" and not target.exists():
            target.symlink_to(source)
    os.environ["SPARK_HOME"] = str(home)


def use_one_compiler() -> None:
    """Give every Java that Spark starts from here on, in this process or another, the options that suit small jobs."""
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(JAVA_OPTIONS)


def speak_arrow() -> None:
    """Give the tests `DataFrame.toArrow`, and DataFrames made from Arrow tables, on Spark 3.5, which lacks both."""
    from pyspark.sql import DataFrame

    if hasattr(DataFrame, "toArrow"):
        return

    from unskew.spark.versions.collecting import arrow_table
    from unskew.spark.versions.private import from_arrow_schema

    make = SparkSession.createDataFrame

    def create(spark: SparkSession, data: Any, *arguments: Any, **options: Any) -> DataFrame:
        if not isinstance(data, pa.Table):
            return make(spark, data, *arguments, **options)
        rows = [tuple(row.values()) for row in data.to_pylist()]
        return make(spark, rows, *(arguments or [from_arrow_schema(data.schema)]), **options)

    SparkSession.createDataFrame = create
    DataFrame.toArrow = arrow_table


def make_session() -> SparkSession:
    """A local Spark of two cores whose workers run this Python."""
    speak_arrow()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers import the examples, also the workers of a Connect server, which does not know where the tests run.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [str(ROOT), *paths])))
    remote = bool(os.environ.get("UNSKEW_TEST_REMOTE"))
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if remote else builder.master("local[2]")
    builder = (
        builder.appName("unskew tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    with warnings.catch_warnings():
        # Connect starts its server with the settings, then warns that it cannot set them on the running one.
        warnings.filterwarnings("ignore", "Failed to set")
        session: SparkSession = builder.getOrCreate()
    return session
