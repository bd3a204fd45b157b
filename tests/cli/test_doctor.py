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
    """The exit code and what was printed, from a process of its own: it may start Spark."""
    done = subprocess.run(
        [sys.executable, *flags, "-m", "unskew", "doctor", *arguments],
        env={**environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('openjdk version "17.0.15" 2025-04-15', Status.OK),
        ('openjdk version "25" 2025-09-16', Status.OK),
        ('openjdk version "11.0.2" 2019-01-15', Status.PROBLEM),
        ('java version "1.8.0_292"', Status.PROBLEM),
    ],
)
def test_java_is_the_one_that_spark_would_start(said: str, status: Status, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", said)
    for environ in ({"JAVA_HOME": str(tmp_path)}, {"PATH": str(tmp_path / "bin")}):
        found = check_java(environ)
        assert found.status is status
        assert str(tmp_path) in found.found
        assert bool(found.advice) == (status is Status.PROBLEM)


def test_a_missing_java_is_a_problem(tmp_path: Path) -> None:
    for environ in ({"JAVA_HOME": str(tmp_path)}, {"PATH": str(tmp_path)}):
        found = check_java(environ)
        assert found.status is Status.PROBLEM
        assert "Java" in found.advice or "JAVA_HOME=" in found.advice


def test_workers_must_run_this_version_of_python(tmp_path: Path) -> None:
    same = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    assert check_workers(same).status is Status.OK
    older, bare = program(tmp_path / "older", "3 10 True"), program(tmp_path / "bare", f"{OURS} False")
    for named in (older, bare, tmp_path / "gone"):
        found = check_workers({**os.environ, "PYSPARK_PYTHON": str(named)})
        assert found.status is Status.PROBLEM
        assert found.advice == f"export PYSPARK_PYTHON={sys.executable}"


def of(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_packages_are_held_against_the_requirements_of_the_installed_unskew() -> None:
    wanted = [
        "numpy>=2.0",
        "pandas<2,>=1; extra == 'spark'",
        "no-such-thing>=1; extra == 'spark'",
        "typer>=0.1; extra == 'cli'",
    ]
    found = list(
        check_packages([*wanted, "no-such-thing; extra == 'bench'", "no-such-thing; extra == 'dev'"])
    )
    assert of(found, "unskew").status is Status.OK
    assert of(found, "unskew[cli]").status is Status.OK
    spark = of(found, "unskew[spark]")
    assert spark.status is Status.PROBLEM
    assert "(needs <2,>=1)" in spark.found
    assert "no-such-thing is missing" in spark.found
    assert spark.advice == "pip install 'unskew[spark]'"
    assert of(found, "unskew[bench]").status is Status.OK  # nobody has to have it
    assert "unskew[dev]" not in [check.name for check in found]


def test_little_of_anything_is_a_warning(tmp_path: Path) -> None:
    assert check_python((3, 11)).status is Status.OK
    assert check_python((3, 99)).status is Status.WARNING
    assert check_cores(1).status is Status.WARNING
    assert check_cores(2).status is Status.OK
    assert check_memory(2 << 30).status is Status.WARNING
    assert check_memory(16 << 30).status is Status.OK
    assert check_memory(None).status is Status.WARNING
    assert check_folder(tmp_path / "gone").status is Status.PROBLEM
    assert str(tmp_path) in check_folder(tmp_path).found


def test_memory_is_at_most_the_machines() -> None:
    size = memory()
    assert size is not None
    assert 1 << 28 < size <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_without_pyspark_the_doctor_says_so(tmp_path: Path) -> None:
    site = Path(sysconfig.get_path("purelib"))
    for part in site.iterdir():
        if not part.name.lower().startswith(("pyspark", "py4j", "pandas", "_unskew")):
            (tmp_path / part.name).symlink_to(part)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}"}
    # -S: only what PYTHONPATH names is installed
    code, text = doctor("--json", environ=environ, flags=("-S",))
    assert code == 1
    told = json.loads(text)
    (spark,) = [check for check in told["checks"] if check["name"] == "unskew[spark]"]
    assert spark["status"] == "problem"
    assert "pyspark is missing" in spark["found"]
    assert "Spark job" not in [check["name"] for check in told["checks"]]


def test_a_problem_is_told_with_what_to_do(tmp_path: Path) -> None:
    code, text = doctor("--no-spark", environ={**os.environ, "JAVA_HOME": str(tmp_path)})
    assert code == 1
    assert f"problem  Java: no Java at {tmp_path}" in text
    assert "→ " in text


@pytest.mark.usefixtures("own_spark")
def test_a_healthy_machine_runs_a_job() -> None:
    code, text = doctor(environ={**os.environ, "PYSPARK_PYTHON": sys.executable})
    assert code == 0, text
    assert "ok       Spark job: Spark 4.3" in text
