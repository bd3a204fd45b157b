"""Word count on text: how often each word occurs, and on how many lines.

    -    words.groupBy("word").applyInPandas(tally, TALLY)
    +    unskew.groupBy(words, "word").applyInPandas(tally, TALLY)

Words follow Zipf's law: "the" alone is a twentieth of all. (A bare `count()` has no such trouble: Spark counts before
it shuffles, and `unskew.groupBy(words, "word").count()` leaves it alone.)
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
    """The same with measured places."""
    return unskew.groupBy(words, "word").applyInPandas(tally, TALLY)


def tally(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for the word of these rows."""
    figures = {"word": rows["word"].iloc[0], "times": len(rows), "lines": rows["line"].nunique()}
    return pd.DataFrame([figures])


def words_of(spark: SparkSession, text: Path) -> DataFrame:
    """A row for each word of a text file, with the number of its line."""
    lines = list(enumerate(text.read_text("utf-8").splitlines()))
    found = F.regexp_extract_all(F.lower("text"), F.lit("[a-z]+"), F.lit(0))
    return spark.createDataFrame(lines, "line long, text string").select(
        "line", F.explode(found).alias("word")
    )


def main(spark: SparkSession) -> None:
    """Count the words of the licence both ways."""
    words = words_of(spark, TEXT)
    counted = agree(plain(words), ours(words))
    for row in sorted(counted, key=lambda row: -row.times)[:5]:
        print(f"{row.word:10} {row.times:4} times on {row.lines} lines")


if __name__ == "__main__":
    main(session())
