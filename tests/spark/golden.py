"""The keys of the golden file, and their hashes by a running Spark.

`python -m tests.spark.golden` writes the file.
"""

from __future__ import annotations

import json
from typing import Any

import pyspark
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from tests.core.golden import FILE

_TEXT = ["", "a", "spark", "Füße", "日本語", "🙂", "with space", "\n\t\"'\\<script>"]
_LENGTHS = ["".join(chr(97 + (i * n) % 26) for i in range(n)) for n in [*range(2, 70), 511, 512, 513, 700]]
_DECIMALS = ["0", "1", "-1", "127", "128", "-128", "-129", "255", "256", "32767", "-32768", "99999"]
_LONG_DECIMALS = [
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
]
_HUGE_DECIMALS = ["9" * 38, "-" + "9" * 38, "170141183460469231731", "-36893488147419103232"]
_DATES = ["1970-01-01", "1969-12-31", "2024-02-29", "0001-01-01", "9999-12-31"]
_TIMES = [
    "1970-01-01T00:00:00",
    "1969-12-31T23:59:59.999999",
    "2024-03-31T02:30:00.000005",
    "9999-12-31T23:59:59",
]
_FLOATS = ["0.0", "-0.0", "1.0", "-1.5", "NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45", "0.1"]

CASES: list[tuple[list[str], list[Any]]] = [
    (["void"], [None]),
    (["string"], [*_TEXT, *_LENGTHS, None]),
    (["binary"], ["", "00", "ff00", "c3", "00" * 31, "00" * 32, "deadbeef" * 9, None]),
    (["boolean"], ["true", "false", None]),
    (["tinyint"], ["0", "1", "-1", "127", "-128", None]),
    (["smallint"], ["0", "1", "-1", "32767", "-32768", None]),
    (["int"], ["0", "1", "-1", "2147483647", "-2147483648", None]),
    (["bigint"], ["0", "1", "-1", "9223372036854775807", "-9223372036854775808", None]),
    (["float"], [*_FLOATS, None]),
    (["double"], [*_FLOATS, "1.7976931348623157e308", "5e-324", None]),
    (["decimal(9,2)"], ["0.00", "1.25", "-1.25", "9999999.99", "-9999999.99", None]),
    (["decimal(18,0)"], [*_DECIMALS, "9" * 18, "-" + "9" * 18, None]),
    (["decimal(19,0)"], [*_DECIMALS, *_LONG_DECIMALS, None]),
    (["decimal(38,0)"], [*_DECIMALS, *_LONG_DECIMALS, *_HUGE_DECIMALS, None]),
    (["decimal(38,18)"], ["0", "1.5", "-1.5", "0.000000000000000001", "-99999999999999999999.5", None]),
    (["date"], [*_DATES, None]),
    (["timestamp"], [*_TIMES, None]),
    (["timestamp_ntz"], [*_TIMES, None]),
    (
        ["string", "bigint"],
        [["a", "1"], ["b", "1"], ["a", "2"], [None, "1"], ["a", None], [None, None], ["", "0"]],
    ),
    (["string", "string"], [["a", "b"], ["b", "a"], ["a", None], [None, "a"], ["ab", ""], ["", "ab"]]),
    (
        ["date", "decimal(20,3)", "double"],
        [["2024-01-01", "1.5", "-0.0"], [None, "-7", "NaN"], ["1960-05-05", None, "0.0"], [None, None, None]],
    ),
    (["boolean", "binary", "timestamp"], [["true", "00ff", "2024-01-01T00:00:00"], ["false", None, None]]),
]


def computed(spark: SparkSession) -> dict[str, Any]:
    """The content of the golden file as this Spark computes it, in one job for all columns."""
    columns = [
        {
            "name": ", ".join(types),
            "types": types,
            "values": [value if isinstance(value, list) else [value] for value in values],
        }
        for types, values in CASES
    ]
    names = [[f"c{n}_{i}" for i in range(len(types))] for n, (types, _) in enumerate(CASES)]
    rows = [
        (
            row,
            *(
                text
                for c in columns
                for text in (c["values"][row : row + 1] or [[None] * len(c["types"])])[0]
            ),
        )
        for row in range(max(len(values) for _, values in CASES))
    ]
    schema = ", ".join(["row int", *(f"{name} string" for group in names for name in group)])
    hashed = [
        sf.xxhash64(*(_typed(sf.col(name), t) for name, t in zip(group, types, strict=True))).alias(
            f"hash{n}"
        )
        for n, (group, (types, _)) in enumerate(zip(names, CASES, strict=True))
    ]
    computed_rows = spark.createDataFrame(rows, schema).select("row", *hashed).orderBy("row").collect()
    for n, column in enumerate(columns):
        column["xxhash64"] = [row[f"hash{n}"] for row in computed_rows[: len(column["values"])]]
    return {"spark": pyspark.__version__, "columns": columns}


def _typed(text: Column, spark_type: str) -> Column:
    if spark_type == "void":
        return sf.lit(None)
    return sf.unhex(text) if spark_type == "binary" else text.cast(spark_type)


def dumped(content: dict[str, Any]) -> str:
    """The text of the golden file, one line per column."""
    lines = ",\n".join(json.dumps(column) for column in content["columns"])
    return f'{{"spark": "{content["spark"]}", "columns": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    from tests.spark.session import make_session

    FILE.write_text(dumped(computed(make_session())))
