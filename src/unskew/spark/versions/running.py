"""Which Spark a session runs, read once, and what that version has.

Supported are 3.5, 4.0, 4.1, 4.2 and 4.3. A newer Spark is taken to have the public API of the newest one, and PySpark's
own operators call the user's function on groups; that is logged once.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST, NEWEST = (3, 5), (4, 3)

_log = logging.getLogger("unskew")


@dataclass(frozen=True, order=True)
class Version:
    """The first two numbers of a version of Spark."""

    major: int
    minor: int

    @classmethod
    def parsed(cls, text: str) -> Version:
        """From the text that Spark gives; vendors add words of their own behind the numbers.

        >>> Version.parsed("4.1.0-amzn-2") >= Version(4, 0)
        True
        """
        numbers = re.match(r"(\d+)\.(\d+)", text)
        if numbers is None:
            raise ValueError(
                f"{text!r} is no version of Spark: two numbers with a point between them are expected"
            )
        return cls(int(numbers[1]), int(numbers[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def is_known(self) -> bool:
        """Whether unskew is tested with this version."""
        return OLDEST <= (self.major, self.minor) <= NEWEST

    @property
    def has_partition_ids(self) -> bool:
        """`DataFrame.repartitionById`: since 4.1."""
        return self >= Version(4, 1)

    @property
    def has_top_k(self) -> bool:
        """The aggregate `approx_top_k`: since 4.1."""
        return self >= Version(4, 1)

    @property
    def has_arrow_tables(self) -> bool:
        """`DataFrame.toArrow`: since 4.0."""
        return self >= Version(4, 0)

    @property
    def has_outer_columns(self) -> bool:
        """`Column.outer` and `DataFrame.scalar`, for subqueries: since 4.0."""
        return self >= Version(4, 0)

    @property
    def has_grouped_arrow(self) -> bool:
        """`applyInArrow` of grouped and of cogrouped rows: since 4.0."""
        return self >= Version(4, 0)

    @property
    def has_group_iterators(self) -> bool:
        """Functions on groups that take and return iterators: since 4.1."""
        return self >= Version(4, 1)

    @property
    def has_python_state(self) -> bool:
        """`transformWithStateInPandas`, on which streams run: since 4.0."""
        return self >= Version(4, 0)

    @property
    def has_connect_state(self) -> bool:
        """`transformWithStateInPandas` on Spark Connect, in the client and in the server: since 4.1."""
        return self >= Version(4, 1)


_versions: WeakKeyDictionary[SparkSession, Version] = WeakKeyDictionary()


def version_of(spark: SparkSession) -> Version:
    """The version of the Spark that the session runs on; of a Connect client, that of the server."""
    version = _versions.get(spark)
    if version is None:
        version = _versions[spark] = Version.parsed(spark.version)
        if version < Version(*OLDEST):
            raise ValueError(
                f"unskew needs Spark {Version(*OLDEST)} or newer, and this session runs {version}"
            )
        if not version.is_known:
            _say_unknown(version)
    return version


@cache
def _say_unknown(version: Version) -> None:
    _log.warning(
        "unskew is tested with Spark %s to %s; on Spark %s it uses public API only, so functions on many small groups "
        "are slower",
        Version(*OLDEST),
        Version(*NEWEST),
        version,
    )
