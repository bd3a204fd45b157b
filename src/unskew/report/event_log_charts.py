"""The chart of an event log: how long the tasks of its worst stages took."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from unskew.report.charts import NEUTRAL, PALETTE, Spec
from unskew.report.page import Row

_LONG, _OTHER = "above twice the mean", "other tasks"


def strips(rows: Sequence[Row], means: Sequence[Row]) -> Spec:
    """One lane per stage, one mark per task: rows with `name`, `task`, `seconds`, `long` and what the task read.

    `means` have `name` and `seconds`: the mean of each lane, in the order of the lanes.
    """
    names = [row["name"] for row in means]
    marks = [{**row, "kind": _LONG if row["long"] else _OTHER} for row in rows]
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=260))
    x = alt.X("seconds:Q", title="seconds from launch to end", scale=alt.Scale(domainMin=0, nice=True))
    ticks = (
        alt.Chart({"values": marks})
        .mark_tick(thickness=2, bandSize=22)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=[_LONG, _OTHER], range=[PALETTE[0], PALETTE[1]]),
                legend=alt.Legend(title=None, orient="top", symbolOpacity=1),
            ),
            tooltip=[
                alt.Tooltip("name:N", title=" "),
                alt.Tooltip("task:Q", title="task"),
                alt.Tooltip("seconds:Q", title="seconds", format=".2f"),
                alt.Tooltip("shuffle_records:Q", title="records from the shuffle", format=","),
                alt.Tooltip("shuffle_bytes:Q", title="bytes from the shuffle", format=","),
            ],
        )
    )
    mean_marks = (
        alt.Chart({"values": list(means)})
        .mark_tick(color=NEUTRAL, thickness=4, bandSize=36, opacity=1)
        .encode(x="seconds:Q", y=y)
    )
    return {
        **alt.layer(ticks, mean_marks).to_dict(),
        "width": "container",
        "height": max(60, 40 * len(names)),
    }
