"""Sessions of users: a visit ends when a user does nothing for half an hour.

    -    sessions(events, Window.partitionBy("user"))
    +    sessions(*unskew.window(events, "user"))

A window over a key sorts all records of the key in one task; if one of the users is a crawler, its task is still busy
long after the others are done.
"""

from __future__ import annotations

import numpy as np
from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

import unskew
from examples.local import agree, session

PAUSE = 30 * 60


def plain(events: DataFrame) -> DataFrame:
    """With PySpark alone."""
    return sessions(events, Window.partitionBy("user"))


def ours(events: DataFrame) -> DataFrame:
    """The same with unskew."""
    return sessions(*unskew.window(events, "user"))


def sessions(events: DataFrame, by_user: WindowSpec) -> DataFrame:
    """Each event with the number of its user's session."""
    in_order = by_user.orderBy("at")
    pause = F.col("at") - F.lag("at").over(in_order)
    begins = F.when(pause > PAUSE, 1).otherwise(0).alias("begins")
    marked = events.select("user", "at", begins)
    return marked.select("user", "at", F.sum("begins").over(in_order).alias("session"))


def visits(spark: SparkSession, events: int = 2000) -> DataFrame:
    """Events of one day, in seconds; one event in ten comes from a crawler."""
    random = np.random.default_rng(3)
    users = np.where(random.random(events) < 0.1, 0, random.zipf(1.3, events) % 300)
    moments = random.choice(86_400, events, replace=False)
    rows = [(f"user-{user}", int(at)) for user, at in zip(users, moments, strict=True)]
    return spark.createDataFrame(rows, "user string, at long")


def main(spark: SparkSession) -> None:
    """Number the sessions both ways."""
    events = visits(spark)
    numbered = agree(plain(events), ours(events))
    count = len({(row.user, row.session) for row in numbered})
    print(f"{len(numbered)} events of {len({row.user for row in numbered})} users are {count} sessions")


if __name__ == "__main__":
    main(session())
