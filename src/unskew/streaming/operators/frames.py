"""Arrow tables as pandas frames, without changing a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa


def frame_of(table: pa.Table, dtype_of: Callable[[pa.DataType], Any]) -> pd.DataFrame:
    """The table as pandas; lists, structs and maps as Python values.

    Pandas itself would turn the lists into arrays, and whole numbers next to a missing value into floats.
    """
    frame: pd.DataFrame = table.to_pandas(
        types_mapper=lambda t: None if pa.types.is_nested(t) else dtype_of(t)
    )
    for i, f in enumerate(table.schema):
        if pa.types.is_nested(f.type):
            values = pd.Series(table.column(i).to_pylist(), index=frame.index, dtype=object)
            frame.isetitem(i, values)  # type: ignore[arg-type]
    return frame
