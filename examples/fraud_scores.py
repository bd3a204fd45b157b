"""Fraud scores: each payment against the usual payment of its card; a card without payments for an hour is forgotten.

    -    payments.groupBy("card").applyInPandasWithState(scored_by_spark, SCORED, STATE, "append", "EventTimeTimeout")
    +    unskew.stream(payments, "card", …).update_each(scored, output=SCORED, state=STATE, ttl="1 hour")

The plain version manages the time-out by hand. Ours takes a plain function of (key, rows, state), and the state of
cards moves to where there is room while the query runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState

import unskew
from examples.local import agree, new_folder, session, stream_of

PAYMENTS = "card string, at timestamp, amount double"
SCORED = "card string, amount double, score double"
STATE = "n long, total double"
START = datetime(2026, 1, 1)


def plain(payments: DataFrame) -> DataFrame:
    """With PySpark alone."""
    timed = payments.withWatermark("at", "1 minute")
    return timed.groupBy("card").applyInPandasWithState(
        scored_by_spark, SCORED, STATE, "append", "EventTimeTimeout"
    )


def ours(payments: DataFrame) -> Any:
    """The same with unskew, which moves state while the query runs."""
    stream = unskew.stream(payments, "card", time="at", watermark="1 minute")
    return stream.update_each(scored, output=SCORED, state=STATE, ttl="1 hour")


def scored(
    card: tuple[str], rows: pd.DataFrame, state: dict[str, Any] | None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The scores of new payments, and the new state: the number of payments and their sum."""
    n, total = (state["n"], state["total"]) if state else (0, 0.0)
    amounts = rows.sort_values("at")["amount"].to_numpy()
    before = total + np.cumsum(amounts) - amounts
    counts = n + np.arange(len(amounts))
    usual = np.divide(before, counts, out=amounts.copy(), where=counts > 0)
    out = pd.DataFrame({"card": card[0], "amount": amounts, "score": np.round(amounts / usual, 6)})
    return out, {"n": n + len(amounts), "total": total + float(amounts.sum())}


def scored_by_spark(
    card: tuple[str], pieces: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """The same for `applyInPandasWithState`: concatenate the pieces, unpack the state, set the time-out."""
    if state.hasTimedOut:
        state.remove()
        return
    rows = pd.concat(pieces)
    before = dict(zip(("n", "total"), state.get, strict=True)) if state.exists else None
    out, after = scored(card, rows, before)
    state.update((after["n"], after["total"]))
    deadline = rows["at"].max() + pd.Timedelta("1 hour")
    state.setTimeoutTimestamp(int(deadline.tz_localize("UTC").timestamp() * 1000))
    yield out


def payments(cards: int = 12, each: int = 60) -> list[pa.Table]:
    """Two busy batches; hours later only card 0 pays, until the others are forgotten; then all cards pay again."""
    random = np.random.default_rng(6)

    def batch(hours: float, who: np.ndarray) -> pa.Table:
        moments = [START + timedelta(hours=hours, seconds=i) for i in range(len(who))]
        amounts = np.round(random.gamma(2.0, 20.0, len(who)), 2)
        columns = [[f"card-{c}" for c in who], pa.array(moments, pa.timestamp("us", tz="UTC")), amounts]
        return pa.table(columns, names=["card", "at", "amount"])

    busy = [random.zipf(1.5, each) % cards for _ in range(3)]
    alone = np.zeros(3, int)
    return [batch(0, busy[0]), batch(0.2, busy[1]), batch(5, alone), batch(5.1, alone), batch(5.2, busy[2])]


def main(spark: SparkSession) -> None:
    """Score all payments both ways."""
    stream = stream_of(spark, payments(), PAYMENTS)
    name = f"scores_{id(stream)}"
    writer = plain(stream).writeStream.format("memory").queryName(name).outputMode("append")
    writer.trigger(availableNow=True).start().awaitTermination()
    query = ours(stream).start(f"memory:{name}", checkpoint=new_folder(), slots=2, trigger="availableNow")
    query.awaitTermination()
    scores = agree(spark.table(name), spark.table(f"global_temp.{name}").drop("batch"))
    oddest = max(scores, key=lambda row: row.score)
    print(
        f"{len(scores)} payments; the oddest: {oddest.amount:.2f} by {oddest.card}, {oddest.score:.1f} × the usual"
    )


if __name__ == "__main__":
    main(session())
