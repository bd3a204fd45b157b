"""Whether streams run: they need state in Python (`transformWithStateInPandas`).

Spark has it since 4.0, and its Connect client and server since 4.1. What unskew uses of it is the same in 4.0 to 4.2
and 4.3: value and map state of types that are given as `StructType`, timers, and the names of the arguments with which
the methods of a `StatefulProcessor` are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import streaming

from unskew.spark.versions.private import is_remote
from unskew.spark.versions.running import Version, version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StatefulProcessor as StatefulProcessor  # type: ignore[attr-defined]
else:
    # on 3.5, which lacks the class, something to inherit from that is never run
    StatefulProcessor = getattr(streaming, "StatefulProcessor", object)


def why_no_streams(spark: SparkSession) -> str:
    """Why no stream runs on this session, or "": none on 3.5, and on Connect none if client or server is 4.0."""
    server = version_of(spark)
    if not server.has_python_state:
        return (
            f"unskew.stream needs Spark 4.0 or newer, for state in Python; this session runs {server}. "
            "Batch operators run on it"
        )
    client = Version.parsed(pyspark.__version__)
    if is_remote() and not min(client, server).has_connect_state:
        return (
            f"unskew.stream needs Spark 4.1 or newer on Spark Connect, for state in Python; the client is {client}, "
            f"the server {server}. Without Connect it needs Spark 4.0"
        )
    return ""


def check_streams(spark: SparkSession) -> None:
    """Refuse a stream where none runs."""
    if reason := why_no_streams(spark):
        raise ValueError(reason)


def check_state(spark: SparkSession) -> None:
    """Refuse to read the state of a stream on 3.5, which cannot read it."""
    version = version_of(spark)
    if not version.has_python_state:
        raise ValueError(
            f"unskew.state needs Spark 4.0 or newer, for state in Python; this session runs {version}"
        )
