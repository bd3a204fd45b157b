"""Word count on text: how often each word occurs, and on how many lines.

    -    words.groupBy("word").applyInPandas(tally, TALLY)
    +    unskew.groupBy(words, "word").applyInPandas(tally, TALLY)

Words follow Zipf's law: "the" alone is a twentieth of all words. (A plain `count()` has no such problem: Spark counts
before it shuffles, and `unskew.groupBy(words, "word").count()` leaves that to Spark.)
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from examples.local import agree, session

TEXT = Path(__file__).parents[1] / "LICENSE"
TALLY = "word string, times long, lines long"


def plain(words: DataFrame) -> DataFrame:
    """With PySpark alone."""
    return words.groupBy("word").applyInPandas(tally, TALLY)


def ours(words: DataFrame) -> DataFrame:
    """The same with unskew."""
    return unskew.groupBy(words, "word").applyInPandas(tally, TALLY)


def tally(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for the word of these rows."""
    row = {"word": rows["word"].iloc[0], "times": len(rows), "lines": rows["line"].nunique()}
    return pd.DataFrame([row])


def words_of(spark: SparkSession, text: Path) -> DataFrame:
    """One row per word of a text file, with the number of its line."""
    lines = list(enumerate(text.read_text("utf-8").splitlines()))
    words = F.regexp_extract_all(F.lower("text"), F.lit("[a-z]+"), F.lit(0))
    df = spark.createDataFrame(lines, "line long, text string")
    return df.select("line", F.explode(words).alias("word"))


def main(spark: SparkSession) -> None:
    """Count the words of the licence both ways."""
    words = words_of(spark, TEXT)
    counted = agree(plain(words), ours(words))
    for row in sorted(counted, key=lambda row: -row.times)[:5]:
        print(f"{row.word:10} {row.times:4} times on {row.lines} lines")


if __name__ == "__main__":
    main(session())
