"""A Spark session for a command line: it prints nothing but errors."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from unskew.spark.versions.private import context_with_log

_QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_LOCAL = {
    # so that a laptop whose own host name does not resolve works, too
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def quiet_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """The active session, or a new one on `master` (`sc://…` for Spark Connect) that logs errors only.

    What a new JVM prints while it starts is held back; if it does not start, its last line is part of the error.
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
            context_with_log(conf, log)
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
