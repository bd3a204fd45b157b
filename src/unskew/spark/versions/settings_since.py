"""Settings of Spark SQL that not every version has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.spark.versions.running import Version, version_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINCE = {
    "spark.sql.execution.arrow.useLargeVarTypes": Version(4, 0),
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled": Version(4, 1),
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype": Version(4, 2),
}


def setting_or_none(spark: SparkSession, name: str) -> str | None:
    """The value of a setting, its default if nobody has set it, or None if this version does not have it."""
    if version_of(spark) < _SINCE.get(name, Version(0, 0)):
        return None
    return spark.conf.get(name)
