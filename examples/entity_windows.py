"""Named entities in the news: how often each is mentioned in every five minutes of a stream.

    -    timed = mentions.withWatermark("at", "1 minute")
    -    timed.groupBy(F.window("at", "5 minutes"), "entity").agg(F.count("*").alias("n"))
    +    timed = unskew.stream(mentions, "entity", time="at", watermark="1 minute")
    +    timed.aggregate(window="5 minutes", n=unskew.count())

The news change by the minute. Spark ties an entity to one partition for ever; here its windows move to where there is
room.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from examples.local import agree, new_folder, session, stream_of

NAMES = ["Ada Lovelace", "Alan Turing", "Grace Hopper", "Edsger Dijkstra", "Barbara Liskov", "Donald Knuth"]
START = datetime(2026, 1, 1)
END = START + timedelta(hours=1)


def plain(mentions: DataFrame) -> DataFrame:
    """With PySpark alone."""
    timed = mentions.withWatermark("at", "1 minute")
    return timed.groupBy(F.window("at", "5 minutes"), "entity").agg(F.count("*").alias("n"))


def ours(mentions: DataFrame) -> Any:
    """The same with unskew, which moves state while the query runs."""
    timed = unskew.stream(mentions, "entity", time="at", watermark="1 minute")
    return timed.aggregate(window="5 minutes", n=unskew.count())


def mentions_in(news: DataFrame) -> DataFrame:
    """One row per entity of a sentence: two consecutive words that begin with a capital letter."""
    entities = F.regexp_extract_all("sentence", F.lit("[A-Z][a-z]+ [A-Z][a-z]+"), F.lit(0))
    return news.select("at", F.explode(entities).alias("entity"))


def news(batches: int = 4, sentences: int = 100) -> list[pa.Table]:
    """Sentences of one hour in batches of 15 minutes, each with another name on top; two later batches close it."""
    random = np.random.default_rng(8)
    tables = []
    for batch in range(batches):
        names = random.choice(np.roll(NAMES, batch), sentences, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
        seconds = 900 * batch + np.sort(random.integers(0, 900, sentences))
        moments = [START + timedelta(seconds=int(s)) for s in seconds]
        tables.append(_table(moments, [f"today {name} said nothing" for name in names]))
    return [*tables, *(_table([END + timedelta(hours=h)], ["later Ada Lovelace left"]) for h in (1, 2))]


def main(spark: SparkSession) -> None:
    """Run both to the end of the news, and compare the closed windows."""
    mentions = mentions_in(stream_of(spark, news(), "at timestamp, sentence string"))
    name = f"mentions_{id(mentions)}"
    writer = plain(mentions).writeStream.format("memory").queryName(name).outputMode("append")
    writer.trigger(availableNow=True).start().awaitTermination()
    query = ours(mentions).start(f"memory:{name}", checkpoint=new_folder(), slots=2, trigger="availableNow")
    query.awaitTermination()
    closed = agree(*(_of_the_hour(spark.table(view)) for view in (name, f"global_temp.{name}")))
    for row in sorted(closed, key=lambda row: -row.n)[:5]:
        print(f"{row.start:%H:%M} {row.entity:16} {row.n:3} mentions")


def _table(moments: list[datetime], sentences: list[str]) -> pa.Table:
    return pa.table({"at": pa.array(moments, pa.timestamp("us", tz="UTC")), "sentence": sentences})


def _of_the_hour(windows: DataFrame) -> DataFrame:
    return windows.where(F.col("window.end") <= F.lit(END)).select("window.start", "entity", "n")


if __name__ == "__main__":
    main(session())
