"""`unskew diagnose --app` and `--history` against a real driver and a real History Server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.spark.skewed_apps import APPS
from unskew.eventlog.findings import diagnose_log

pytestmark = pytest.mark.usefixtures("own_spark")
ROOT = Path(__file__).parents[2]


def run_apps(folder: Path, *names: str) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    job = subprocess.run(
        [sys.executable, "-m", "tests.spark.skewed_apps", str(folder), *names],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert job.returncode == 0, (job.stdout + job.stderr)[-3000:]


def check(name: str, diagnosis: dict[str, Any]) -> None:
    """The worst finding has the right cause and the right advice."""
    app = APPS[name]
    assert diagnosis["application"] == name
    findings = diagnosis["findings"]
    if app.cause is None:
        assert not any(finding["fixable"] for finding in findings), findings
        return
    worst = findings[0]
    assert (worst["cause"], worst["fixable"]) == (str(app.cause), app.fixable), findings
    assert app.advice in worst["advice"]


def check_hints(name: str, folder: Path) -> None:
    """The session printed the advice while it ran, on one line; nothing if there was nothing to fix."""
    hints = (folder / "live" / f"{name}.hints").read_text("utf-8").splitlines()
    app = APPS[name]
    assert all(line.startswith("unskew: stage ") for line in hints)
    assert len(set(hints)) == len(hints)
    if app.cause is None:
        assert not any("unskew." in line for line in hints)
    else:
        assert any(str(app.cause) in line and app.advice in line for line in hints), hints


@pytest.mark.thorough
def test_a_running_driver_is_diagnosed(tmp_path: Path) -> None:
    name = "hot key in a group"
    run_apps(tmp_path, name)
    diagnosis = json.loads((tmp_path / "live" / f"{name}.json").read_text("utf-8"))
    check(name, diagnosis)
    check_hints(name, tmp_path)
    assert not diagnosis["finished"]
    assert diagnosis["findings"][0]["key"] == ["user"]
    assert diagnosis["findings"][0]["operator"] == "FlatMapGroupsInPandas"


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("apps")
    run_apps(folder)
    return folder


@pytest.fixture(scope="module")
def history(apps: Path) -> Iterator[str]:
    """The address of a History Server of PySpark's own distribution."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent))
    options = {"fs.logDirectory": (apps / "logs").as_uri(), "ui.port": str(port)}
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HISTORY_OPTS": " ".join(f"-Dspark.history.{name}={value}" for name, value in options.items()),
    }
    with (apps / "history.log").open("wb") as log:
        server = subprocess.Popen(
            [str(home / "bin" / "spark-class"), "org.apache.spark.deploy.history.HistoryServer"],
            env=env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(address, len(APPS))
        yield address
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def wait_for(address: str, applications: int, patience: float = 120.0) -> None:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{address}/api/v1/applications", timeout=10) as answer:
                if len(json.load(answer)) >= applications:
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise TimeoutError("the History Server does not list the applications")


def application_id(address: str, name: str) -> str:
    with urllib.request.urlopen(f"{address}/api/v1/applications", timeout=10) as answer:
        (chosen,) = [application["id"] for application in json.load(answer) if application["name"] == name]
    return str(chosen)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", APPS)
def test_driver_history_server_and_log_agree(apps: Path, history: str, name: str) -> None:
    check(name, json.loads((apps / "live" / f"{name}.json").read_text("utf-8")))
    check_hints(name, apps)
    number = application_id(history, name)
    command = [sys.executable, "-m", "unskew", "diagnose", "--history", history, "--app-id", number, "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    diagnosis = json.loads(told.stdout)
    check(name, diagnosis)
    assert diagnosis["finished"]
    (log,) = [path for path in (apps / "logs").iterdir() if number in path.name]
    check(name, diagnose_log(log).to_dict())


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_an_unknown_application_is_one_line(history: str) -> None:
    command = [sys.executable, "-m", "unskew", "diagnose", "--history", history, "--app-id", "app-none"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    (line,) = [line for line in told.stderr.splitlines() if not line.endswith("…")]
    assert line.startswith(f"error: {history}: no application 'app-none'; it knows ")
