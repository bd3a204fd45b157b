"""The functions that the everyday jobs run in Python workers; kept apart, so that a worker imports little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

SUMMARY = "user string, n long, total long"


def summary(rows: Any) -> Any:
    """One row per group."""
    import pandas as pd

    return pd.DataFrame({"user": [rows["user"].iloc[0]], "n": [len(rows)], "total": [rows["v"].sum()]})


def keyed_summary(key: tuple[Any, ...], rows: Any) -> Any:
    """The same, with the key as an argument."""
    import pandas as pd

    return pd.DataFrame({"user": [key[0]], "n": [len(rows)], "total": [rows["v"].sum()]})


def arrow_summary(rows: Any) -> Any:
    """The same in Arrow."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.table(
        {"user": rows["user"].slice(0, 1), "n": [rows.num_rows], "total": [pc.sum(rows["v"]).as_py()]}
    )


def keyed_arrow_summary(key: tuple[Any, ...], rows: Any) -> Any:
    """The same in Arrow, with the key as an argument."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.table(
        {
            "user": pa.array([key[0].as_py()], pa.string()),
            "n": [rows.num_rows],
            "total": [pc.sum(rows["v"]).as_py()],
        }
    )


def day_summary(rows: Any) -> Any:
    """One row per group of a day."""
    import pandas as pd

    return pd.DataFrame({"day": [rows["day"].iloc[0]], "n": [len(rows)], "total": [rows["v"].sum()]})


def ranked(rows: Any) -> Any:
    """As many rows as there were, in the order of their values."""
    rows = rows.sort_values(["v", "id"])
    return rows[["user", "id"]].assign(place=range(len(rows)))


def scored(steps: int) -> Callable[[Any], Any]:
    """A function whose time grows with the number of rows, as that of a model does."""

    def score(rows: Any) -> Any:
        import numpy as np

        points = np.arange(steps)
        scores = [int((points ^ value).sum() & 0xFFFF) for value in rows["v"].to_numpy()]
        return rows[["user", "id"]].assign(score=scores)

    return score


def slowly(steps: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for `mapInPandas` that makes an expensive input: the same columns, `v` changed."""

    def burn(frames: Iterator[Any]) -> Iterator[Any]:
        import numpy as np

        points = np.arange(steps)
        for frame in frames:
            values = [int((points ^ value).sum() & 0xFFFF) for value in frame["v"].to_numpy()]
            yield frame.assign(v=values)

    return burn


def pair(left: Any, right: Any) -> Any:
    """How many rows each side of a cogroup has."""
    import pandas as pd

    user = (left if len(left) else right)["user"].iloc[0]
    return pd.DataFrame({"user": [user], "n": [len(left)], "total": [len(right)]})


def arrow_pair(left: Any, right: Any) -> Any:
    """The same in Arrow."""
    import pyarrow as pa

    side = left if left.num_rows else right
    return pa.table({"user": side["user"].slice(0, 1), "n": [left.num_rows], "total": [right.num_rows]})


def spread(values: Any) -> int:
    """A Python aggregate: the largest value less the smallest."""
    return int(values.max() - values.min())
