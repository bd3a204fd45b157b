"""A Spark session for a command line: quiet, and silent about everything that is not an error of the user's."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_LOCAL = {
    # a laptop whose own name does not resolve is no reason to fail
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def quiet_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """The session in force, or a new one on `master` (`sc://…` for Spark Connect) that logs errors only.

    What a new JVM prints while it starts is kept aside, and its last line told if it does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if master.startswith("sc://"):
        builder = SparkSession.builder.remote(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    chosen = {**_QUIET, **(_LOCAL if master.startswith("local[") or master == "local" else {}), **settings}
    conf = SparkConf().setMaster(master).setAppName("unskew").setAll(list(chosen.items()))
    with tempfile.TemporaryFile() as log:
        try:
            # the developer hook of PySpark for this: the JVM's first lines cannot be turned off by a setting
            gateway = launch_gateway(conf, {"stderr": log})  # type: ignore[no-untyped-call]
            SparkContext(conf=conf, gateway=gateway)
        except PySparkException as error:
            why = _last_line(log) or str(error)
            if not _java():
                why = "there is no Java: install version 17 or newer, and set JAVA_HOME if it is not on the PATH"
            raise RuntimeError(f"Spark could not be started on {master}: {why}") from error
    return SparkSession.builder.getOrCreate()


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home, "bin")) if home else None)


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith("at ")), "")
