from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from unskew.cli.machine import (
    Check,
    Status,
    check_cores,
    check_folder,
    check_java,
    check_memory,
    check_packages,
    check_python,
    check_workers,
    memory,
)

OURS = " ".join(map(str, sys.version_info[:2]))
SOURCE = Path(__file__).parents[2] / "src"


def program(path: Path, prints: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'TEXT'\n{prints}\nTEXT\n")
    path.chmod(0o755)
    return path


def doctor(
    *arguments: str, environ: Mapping[str, str] = os.environ, flags: tuple[str, ...] = ()
) -> tuple[int, str]:
    """The exit code and what was printed, from a separate process, because it may start Spark."""
    process = subprocess.run(
        [sys.executable, *flags, "-m", "unskew", "doctor", *arguments],
        env={**environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )
    assert "Traceback" not in process.stderr, process.stderr
    return process.returncode, process.stdout


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ('openjdk version "17.0.15" 2025-04-15', Status.OK),
        ('openjdk version "25" 2025-09-16', Status.OK),
        ('openjdk version "11.0.2" 2019-01-15', Status.PROBLEM),
        ('java version "1.8.0_292"', Status.PROBLEM),
    ],
)
def test_java_is_the_one_that_spark_will_start(output: str, status: Status, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", output)
    for environ in ({"JAVA_HOME": str(tmp_path)}, {"PATH": str(tmp_path / "bin")}):
        check = check_java(environ)
        assert check.status is status
        assert str(tmp_path) in check.detail
        assert bool(check.advice) == (status is Status.PROBLEM)


def test_a_missing_java_is_a_problem(tmp_path: Path) -> None:
    for environ in ({"JAVA_HOME": str(tmp_path)}, {"PATH": str(tmp_path)}):
        check = check_java(environ)
        assert check.status is Status.PROBLEM
        assert "Java" in check.advice or "JAVA_HOME=" in check.advice


def test_workers_must_run_this_version_of_python(tmp_path: Path) -> None:
    same = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    assert check_workers(same).status is Status.OK
    older, bare = program(tmp_path / "older", "3 10 True"), program(tmp_path / "bare", f"{OURS} False")
    for python in (older, bare, tmp_path / "gone"):
        check = check_workers({**os.environ, "PYSPARK_PYTHON": str(python)})
        assert check.status is Status.PROBLEM
        assert check.advice == f"export PYSPARK_PYTHON={sys.executable}"


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_packages_are_compared_with_the_requirements_of_the_installed_unskew() -> None:
    requirements = [
        "numpy>=2.0",
        "pandas<2,>=1; extra == 'spark'",
        "no-such-thing>=1; extra == 'spark'",
        "typer>=0.1; extra == 'cli'",
    ]
    checks = list(
        check_packages([*requirements, "no-such-thing; extra == 'bench'", "no-such-thing; extra == 'dev'"])
    )
    assert named(checks, "unskew").status is Status.OK
    assert named(checks, "unskew[cli]").status is Status.OK
    spark = named(checks, "unskew[spark]")
    assert spark.status is Status.PROBLEM
    assert "(needs <2,>=1)" in spark.detail
    assert "no-such-thing is missing" in spark.detail
    assert spark.advice == "pip install 'unskew[spark]'"
    assert named(checks, "unskew[bench]").status is Status.OK  # optional
    assert "unskew[dev]" not in [check.name for check in checks]


def test_little_of_anything_is_a_warning(tmp_path: Path) -> None:
    assert check_python((3, 11)).status is Status.OK
    assert check_python((3, 99)).status is Status.WARNING
    assert check_cores(1).status is Status.WARNING
    assert check_cores(2).status is Status.OK
    assert check_memory(2 << 30).status is Status.WARNING
    assert check_memory(16 << 30).status is Status.OK
    assert check_memory(None).status is Status.WARNING
    assert check_folder(tmp_path / "gone").status is Status.PROBLEM
    assert str(tmp_path) in check_folder(tmp_path).detail


def test_memory_is_at_most_the_machines() -> None:
    size = memory()
    assert size is not None
    assert 1 << 28 < size <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_missing_pyspark_is_reported(tmp_path: Path) -> None:
    site = Path(sysconfig.get_path("purelib"))
    for part in site.iterdir():
        if not part.name.lower().startswith(("pyspark", "py4j", "pandas", "_unskew")):
            (tmp_path / part.name).symlink_to(part)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"}
    # -S: only what PYTHONPATH names is installed
    code, text = doctor("--json", environ=environ, flags=("-S",))
    assert code == 1
    report = json.loads(text)
    (spark,) = [check for check in report["checks"] if check["name"] == "unskew[spark]"]
    assert spark["status"] == "problem"
    assert "pyspark is missing" in spark["detail"]
    assert "Spark job" not in [check["name"] for check in report["checks"]]


def test_a_problem_comes_with_advice(tmp_path: Path) -> None:
    code, text = doctor("--no-spark", environ={**os.environ, "JAVA_HOME": str(tmp_path)})
    assert code == 1
    assert f"problem  Java: no Java at {tmp_path}" in text
    assert "→ " in text


@pytest.mark.usefixtures("own_spark")
def test_a_healthy_machine_runs_a_job_and_a_harmful_setting_is_named(tmp_path: Path) -> None:
    name = "spark.sql.requireAllClusterKeysForDistribution"
    (tmp_path / "spark-defaults.conf").write_text(f"{name} true\n")
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(tmp_path)}
    code, text = doctor(environ=environ)
    assert code == 0, text
    assert "ok       Spark job: Spark 4.3" in text
    assert f"warning  Spark settings: {name} is true" in text
    assert f"→ set {name} to false" in text
