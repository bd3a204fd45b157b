"""The tests on every supported version of Spark, each in an environment of its own, and a table of the results.

    python scripts/test_versions.py [--only SUITE …] [version …]
    python scripts/test_versions.py --connect
    python scripts/test_versions.py --docs

An environment is made in build/spark-<version> from requirements/spark-<version>.lock. The suites are `smoke`
(scripts/smoke_version.py), `batch` (tests/spark) and `streams` (tests/streaming and the short fault tests; not on 3.5,
which has no state in Python). With --connect the smoke test runs as a client of one version of a Spark Connect server
of another, for the pairs in CONNECTED. The results are added to the record in benchmarks/results/versions.json; --docs
writes the tables of docs/spark-versions.md and of README.md from it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "results" / "versions.json"
PAGES = (ROOT / "docs" / "spark-versions.md", ROOT / "README.md")
VERSIONS = ("3.5", "4.0", "4.1", "4.2", "4.3")
NEWEST = VERSIONS[-1]
WITHOUT_STREAMS = {"3.5": "refused: streams need Spark 4.0"}

NOT_HERE = "not papers and not notebook and not hosts"
SUITES: dict[str, list[str]] = {
    "batch": ["tests/spark", "-m", f"spark and not processes and {NOT_HERE}"],
    "streams": ["tests/streaming", "tests/faults/test_short.py", "-m", f"spark and {NOT_HERE}"],
}

# Client and server of Spark Connect. The package of 3.5 has no server.
CONNECTED = [(version, version) for version in VERSIONS[1:]] + [("4.0", "4.3"), ("4.3", "4.0")]

# What older versions of PySpark and of what they import warn of; the tests make an error of every other warning.
IGNORED = (
    "DeprecationWarning",
    "FutureWarning",
    "ResourceWarning",
    "pytest.PytestUnraisableExceptionWarning",
)

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def environment(version: str, folder: Path) -> Path:
    """The Python that has this version of Spark; the environment is made if the lock file has changed."""
    lock = ROOT / ("requirements.lock" if version == NEWEST else f"requirements/spark-{version}.lock")
    folder = folder / f"spark-{version}"
    stamp, python = folder / ".installed", folder / "bin" / "python"
    if stamp.exists() and stamp.read_text() == lock.read_text():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(lock)], check=True)
    stamp.write_text(lock.read_text())
    return python


def variables(python: Path) -> dict[str, str]:
    """The environment of a process that runs this Python."""
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    return {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": str(python)}


def smoke(python: Path, *arguments: str) -> dict[str, Any]:
    """What the smoke test found: the version of Spark, and the result of each check."""
    command = [str(python), str(ROOT / "scripts" / "smoke_version.py"), *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=variables(python), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            print(f"  {line}", end="", flush=True)
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {"results": {"smoke test": f"FAILED: it ended early with exit code {process.returncode}"}}
    return found


def tested(python: Path, version: str, suite: str) -> dict[str, Any]:
    """What became of a suite: how many tests passed and failed, and how many were skipped for which reason."""
    ignored = [] if version == NEWEST else [f"-Wignore::{name}" for name in IGNORED]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [str(python), "-m", "pytest", "-q", *ignored, *SUITES[suite], f"--junitxml={report}"]
        code = subprocess.run(command, cwd=ROOT, env=variables(python), check=False).returncode
        if not report.exists():
            return {"passed": 0, "failed": 1, "skipped": {}, "why": f"pytest ended with exit code {code}"}
        return counted(report)


def counted(report: Path) -> dict[str, Any]:
    """The tests in a report of pytest."""
    passed, failed, skipped = 0, 0, Counter[str]()
    for case in ET.parse(report).getroot().iter("testcase"):
        reasons = [each.get("message", "") for each in case.iter("skipped")]
        if reasons:
            skipped[reasons[0]] += 1
        elif any(True for kind in ("failure", "error") for _ in case.iter(kind)):
            failed += 1
        else:
            passed += 1
    return {"passed": passed, "failed": failed, "skipped": dict(sorted(skipped.items()))}


@contextlib.contextmanager
def connect_server(python: Path) -> Iterator[str]:
    """A Spark Connect server of this environment; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site = subprocess.check_output(
        [str(python), "-c", "import pyspark; print(pyspark.__path__[0])"], text=True
    )
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("wb") as log:
        process = subprocess.Popen(
            [f"{site.strip()}/bin/spark-submit", "--master", "local[2]", "--class", SERVER, *options],
            cwd=folder,
            env={**variables(python), "SPARK_HOME": site.strip()},
            stdout=log,
            stderr=log,
        )
        try:
            end = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < end:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.5)
            else:
                raise RuntimeError(f"no server: {Path(folder, 'log').read_text()[-2000:]}")
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def run_version(version: str, suites: list[str], environments: Path) -> dict[str, Any]:
    """Run the suites on one version; their results by name."""
    python = environment(version, environments)
    results: dict[str, Any] = {}
    for suite in suites:
        if suite == "streams" and version in WITHOUT_STREAMS:
            continue
        print(f"Spark {version}: {suite}", flush=True)
        results[suite] = smoke(python) if suite == "smoke" else tested(python, version, suite)
    return results


def run_connected(environments: Path) -> dict[str, Any]:
    """The smoke test with each pair of versions of client and server."""
    results = {}
    for client, server in CONNECTED:
        print(f"Spark Connect: client {client}, server {server}", flush=True)
        with connect_server(environment(server, environments)) as address:
            found = smoke(environment(client, environments), "--remote", address)
        results[f"client {client}, server {server}"] = found["results"]
    return results


def failures(results: dict[str, Any]) -> int:
    """How many tests or checks failed."""
    failed = 0
    for name, each in results.items():
        if name in SUITES:
            failed += int(each["failed"])
        elif isinstance(each, dict):
            failed += failures(each)
        else:
            failed += str(each).startswith("FAILED")
    return failed


def table(record: dict[str, Any]) -> str:
    """The results of the suites as a table in Markdown."""
    lines = ["| Spark | batch tests | tests of streams, with faults | skipped |", "|---|---|---|---|"]
    for version, results in sorted(record["versions"].items()):
        exact = results.get("smoke", {}).get("spark", version)
        cells = []
        skipped: Counter[str] = Counter()
        for suite in SUITES:
            found = results.get(suite)
            skipped.update({} if found is None else found["skipped"])
            if found is None:
                cells.append(WITHOUT_STREAMS.get(version, "not run") if suite == "streams" else "not run")
            else:
                cells.append(
                    f"{found['passed']} passed" + (f", {found['failed']} failed" if found["failed"] else "")
                )
        reasons = "; ".join(f"{count}: {reason}" for reason, count in sorted(skipped.items())) or "none"
        lines.append(f"| {exact} | {' | '.join(cells)} | {reasons} |")
    return "\n".join(lines)


def support_table(record: dict[str, Any]) -> str:
    """Version × operator, from the smoke tests."""
    return _matrix(
        {
            results["smoke"]["spark"]: results["smoke"]["results"]
            for _, results in sorted(record["versions"].items())
            if "smoke" in results
        }
    )


def connect_table(record: dict[str, Any]) -> str:
    """Client and server × operator, from the smoke tests on Spark Connect."""
    return _matrix(record.get("connect", {}))


def _matrix(columns: dict[str, dict[str, str]]) -> str:
    checks = dict.fromkeys(check for results in columns.values() for check in results)
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for check in checks:
        cells = [_cell(results.get(check, "not run")) for results in columns.values()]
        lines.append(f"| {check} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(result: str) -> str:
    return "**no**" if result.startswith("FAILED") else result.removeprefix("refused: ")


def write_docs(record: dict[str, Any]) -> None:
    """Put the tables between the marks of the pages that have them."""
    tables = {"results": table(record), "support": support_table(record), "connect": connect_table(record)}
    for page in PAGES:
        text = page.read_text("utf-8")
        for name, content in tables.items():
            before, start, rest = text.partition(f"<!-- {name} -->\n")
            if start:
                _, end, after = rest.partition(f"<!-- end of {name} -->")
                text = f"{before}{start}{content}\n{end}{after}"
        page.write_text(text, "utf-8")


def main() -> int:
    """Run what is asked for, add it to the record, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--only", nargs="*", choices=["smoke", *SUITES], default=["smoke", *SUITES])
    parser.add_argument("--connect", action="store_true", help="clients and servers of Spark Connect")
    parser.add_argument("--docs", action="store_true", help="only write the record into the docs")
    parser.add_argument("--no-record", action="store_true", help="leave the record as it is")
    parser.add_argument("--environments", type=Path, default=ROOT / "build", help="where they are made")
    asked = parser.parse_args()
    record: dict[str, Any] = {"versions": {}}
    if RECORD.exists():
        record = json.loads(RECORD.read_text("utf-8"))
    if asked.docs:
        write_docs(record)
        return 0
    failed = 0
    versions = [] if asked.connect else asked.versions
    for version in versions:
        results = run_version(version, asked.only, asked.environments)
        failed += failures(results)
        record["versions"].setdefault(version, {}).update(results)
        _save(record, asked.no_record)
    if asked.connect:
        record["connect"] = run_connected(asked.environments)
        failed += failures(record["connect"])
        _save(record, asked.no_record)
    print(table(record), support_table(record), connect_table(record), sep="\n\n")
    return min(failed, 1)


def _save(record: dict[str, Any], dry: bool) -> None:
    if not dry:
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
