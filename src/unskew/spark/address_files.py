"""Small files on the file systems that only Spark reaches.

Spark has no writer of single files, so a file becomes a folder with one text file that holds the content in base64.
Spark writes it under a temporary name and renames it, so a reader finds a whole file. Writing deletes the older file
first: a reader in between finds none. Two writers at once may both leave a file, and the newer one counts. Reading
takes such a folder or a single file that something else put there. Either costs one small Spark job.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, NoReturn

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from unskew.core.addresses import one_line, refuse_missing
from unskew.spark.versions.errors import condition_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MISSING = "PATH_NOT_FOUND"
_PATTERN = re.compile(r"([\[\]{}*?\\])")


def is_active(session: SparkSession | None) -> bool:
    """Whether there is a session to work with."""
    return _active(session) is not None


def read(address: str, session: SparkSession | None = None) -> bytes:
    """The content that `write` wrote, or that of a single file."""
    try:
        contents = _newest(_active(session), address).collect()
    except Exception as error:  # noqa: BLE001  raised again
        # Java's errors that PySpark does not translate have a class of py4j, which Connect does without
        if isinstance(error, AnalysisException) and condition_of(error) == _MISSING:
            refuse_missing(address, error)
        _refuse(address, "read", error)
    if not contents:
        refuse_missing(address)
    content = bytes(contents[0]["content"])
    # every file of unskew begins with JSON, and base64 has no brace
    return content if content.startswith((b"{", b"<")) else _decoded(content)


def write(address: str, data: bytes, session: SparkSession | None = None) -> None:
    """Replace the file; the last writer wins."""
    spark = _active(session)
    assert spark is not None
    # a page stays a page; a plan holds bytes that are no text
    text = data.decode() if data.startswith(b"<") else base64.b64encode(data).decode()
    try:
        row = spark.createDataFrame([(text,)], "value string").coalesce(1)
        row.write.mode("overwrite").text(address)
    except Exception as error:  # noqa: BLE001  raised again
        _refuse(address, "written", error)


def _newest(spark: SparkSession | None, address: str) -> DataFrame:
    assert spark is not None
    found = spark.read.format("binaryFile").load(_PATTERN.sub(r"\\\1", address))
    return found.orderBy(F.col("modificationTime").desc(), "path").select("content").limit(1)


def _decoded(content: bytes) -> bytes:
    """The content of a text file, or the bytes as they are: whoever reads them checks them."""
    try:
        return base64.b64decode(content.strip(), validate=True)
    except ValueError:
        return content


def _active(session: SparkSession | None) -> SparkSession | None:
    return session if session is not None else SparkSession.getActiveSession()


def _refuse(address: str, done: str, error: Exception) -> NoReturn:
    reason = re.sub(r"^.*Exception: ", "", _cause(error))
    raise ValueError(
        f"{address}: cannot be {done} by Spark ({reason}): check the address and Spark's settings for it"
    ) from error


def _cause(error: Exception) -> str:
    """The line that says what is wrong: py4j puts it below a line that says only where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip().startswith(":")]
    return lines[0].lstrip(": ") if lines else one_line(error)
