"""`make bench-versions`: what unskew costs on each supported version of Spark, beside plain Spark of the same version.

    python -m benchmarks.versions [--rows N] [version …]

Each version runs in its own environment (see scripts/test_versions.py) and in one process, on the same files. What
has been measured before counts as well, so versions may be run one at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.bars import RESULTS, Bar, finish
from benchmarks.batch_spark import zipf_keys
from scripts.test_versions import NEWEST, ROOT, VERSIONS, environment

ROWS, KEYS, FILES = 10_000_000, 1_000_000, 4
ROUTED, MEASURED, GROUPED, STREAMED = 1.10, 1.5, 1.0, 2.0


def main() -> None:
    """Measure the versions asked for, and judge everything measured so far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "versions", nargs="*", default=VERSIONS, help=f"of {', '.join(VERSIONS)}; default: all"
    )
    parser.add_argument("--rows", type=int, default=ROWS, help="of the data that is shuffled and measured")
    asked = parser.parse_args()
    for version in asked.versions:
        if version not in VERSIONS:
            sys.exit(f"there is no version {version!r}: choose from {', '.join(VERSIONS)}")
    with tempfile.TemporaryDirectory(prefix="unskew-versions-") as folder:
        data = Path(folder) / "data"
        write_data(data, asked.rows)
        for version in asked.versions:
            print(f"\n== Spark {version}", flush=True)
            _measured(version, data)
    records = {version: record for version in VERSIONS if (record := _record(version))}
    bars = judged(records)
    for bar in bars:
        print(bar.line())
    # versions.json is the record of test-versions
    finish("versions-speed", bars, {"versions": records})


def write_data(folder: Path, rows: int) -> None:
    """Rows of a skewed string key, a number and a value, as a few Parquet files: the same in every run."""
    folder.mkdir(parents=True)
    numbers = pa.array(zipf_keys(rows, KEYS, 1.1))
    table = pa.table(
        {
            "user": pc.binary_join_element_wise("user", numbers.cast(pa.string()), "-"),
            "time": pc.multiply(numbers, 7919),
            "value": pc.multiply(numbers.cast(pa.float64()), 0.5),
        }
    )
    size = -(-rows // FILES)
    for file in range(FILES):
        pq.write_table(table.slice(file * size, size), folder / f"{file}.parquet")


def judged(records: dict[str, dict[str, Any]]) -> list[Bar]:
    """The bars of every version that has been measured; measuring is compared with the newest version's."""
    bars = []
    newest = records.get(NEWEST)
    for version, record in records.items():
        times = record["seconds"]
        # a record of fewer rows, from a trial, is compared with nothing
        comparable = newest is not None and newest["rows"] == record["rows"]
        bars.append(
            _ratio(
                f"{version}: slot and shuffle / repartition(N, key)", times, "routed", "repartition", ROUTED
            )
        )
        if comparable and newest is not None:
            for name in ("measure", "measure, exact", "observed job"):
                ratio = times[name] / newest["seconds"][name]
                bars.append(Bar(f"{version}: {name} / that of {NEWEST}", ratio, MEASURED, unit="×"))
        bars.append(
            _ratio(f"{version}: applyInPandas of unskew / of Spark", times, "groups", "plain groups", GROUPED)
        )
        if "stream batch" in times:
            bars.append(
                _ratio(
                    f"{version}: batch of a stream / native", times, "stream batch", "native batch", STREAMED
                )
            )
        more = sum(ours > plain for ours, plain in record["exchanges"].values())
        bars.append(Bar(f"{version}: operators with more exchanges than in plain Spark", more, 0))
    return bars


def _ratio(name: str, times: dict[str, float], ours: str, plain: str, limit: float) -> Bar:
    return Bar(name, times[ours] / times[plain], limit, unit="×")


def _measured(version: str, data: Path) -> None:
    """Measure one version in its own environment, which writes the record."""
    python = environment(version, ROOT / "build")
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    variables = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": str(python)}
    command = [str(python), "-m", "benchmarks.versions_spark", str(data), str(_path(version))]
    subprocess.run(command, cwd=ROOT, env=variables, check=True)


def _record(version: str) -> dict[str, Any] | None:
    path = _path(version)
    return json.loads(path.read_text()) if path.exists() else None


def _path(version: str) -> Path:
    return RESULTS / f"versions-{version}.json"


if __name__ == "__main__":
    main()
