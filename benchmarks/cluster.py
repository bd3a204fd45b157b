"""A standalone Spark cluster on one machine, with each worker on its own simulated host, for benchmarks and tests.

The module is here and not in `scripts`, which is not a package, so that both can import it; `scripts/cluster.py` is its
command line. It uses the Spark that pip installed, without an external shuffle service. Every worker has its own
folder, so a task reads shuffle files of another worker over the link.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.network import Network, bits_per_second, why_not

ROOT = Path(__file__).parents[1]
PYTHONPATH = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
MASTER = 0
"""The master's host; workers are hosts 1, 2, …"""

MOST_WORKERS = 6
PATIENCE = 180
"""Seconds within which all workers must register."""


@dataclass(frozen=True)
class Cluster:
    """A master and `workers` workers, each with `cores`, `memory` and a link of `rate`; a `with` block stops it.

    >>> with Cluster(workers=4, rate="100mbit") as cluster:  # doctest: +SKIP
    ...     builder = SparkSession.builder.config(map=cluster.conf)
    """

    workers: int = 4
    rate: str = "1gbit"
    cores: int = 1
    memory: str = "1g"
    name: str = "unskew"

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= MOST_WORKERS:
            raise ValueError(f"workers must be between 1 and {MOST_WORKERS}, not {self.workers}")
        bits_per_second(self.rate)  # refuse a wrong rate before anything starts

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def network(self) -> Network:
        """The hosts and their links, to cut, reconnect, kill and limit."""
        return Network(self.name)

    @property
    def url(self) -> str:
        """The master's address, for Spark."""
        return f"spark://{self.network.address(MASTER)}:7077"

    @property
    def conf(self) -> dict[str, str]:
        """What the driver's session must set; `env` is what its environment must have."""
        gateway = self.network.gateway
        return {
            "spark.master": self.url,
            "spark.driver.host": gateway,
            "spark.driver.bindAddress": gateway,
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": self.memory,
            "spark.executorEnv.PYTHONPATH": PYTHONPATH,
            # otherwise the executor that starts first would get all tasks
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        }

    @property
    def env(self) -> dict[str, str]:
        """What the driver's environment must have."""
        return {
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": PYTHONPATH,
            "SPARK_LOCAL_IP": self.network.gateway,
        }

    @property
    def folder(self) -> Path:
        """Logs and local files, one folder per host; `stop` removes it."""
        return Path(tempfile.gettempdir()) / f"unskew-cluster-{self.name}"

    def start(self) -> None:
        """Start everything and wait until all workers have registered; if that fails, stop everything."""
        reason = why_not()
        if reason is not None:
            raise RuntimeError(f"cannot start a cluster: {reason}")
        self.network.create()
        try:
            # left over if the machine stopped before the cluster
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700)
            self._start_master()
            for worker in range(1, self.workers + 1):
                self._start_worker(worker)
            self._wait_for_workers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything and leave nothing behind; works on a partial cluster and from any process."""
        self.network.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def limit(self, rate: str) -> None:
        """Change the rate of all workers' links."""
        for host in self.network.hosts():
            if host != MASTER:
                self.network.limit(host, rate)

    def registered(self) -> dict[str, str]:
        """The state of each worker according to the master, by address; empty if the master does not answer."""
        try:
            # without a proxy that the environment may set
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://{self.network.address(MASTER)}:8080/json/", timeout=5) as answer:
                workers: list[dict[str, Any]] = json.load(answer)["workers"]
        except (OSError, ValueError):  # a busy master may answer with nothing
            return {}
        return {worker["host"]: worker["state"] for worker in workers}

    def _start_master(self) -> None:
        address = self.network.add(MASTER)
        options = ("--host", address, "--port", "7077", "--webui-port", "8080")
        self._launch(MASTER, "org.apache.spark.deploy.master.Master", *options)

    def _start_worker(self, worker: int) -> None:
        address = self.network.add(worker)
        self.network.limit(worker, self.rate)
        size = ("--cores", str(self.cores), "--memory", self.memory)
        where = (
            "--host",
            address,
            "--webui-port",
            "8081",
            "--work-dir",
            str(self.folder / str(worker) / "work"),
        )
        self._launch(worker, "org.apache.spark.deploy.worker.Worker", *size, *where, self.url)

    def _launch(self, host: int, java_class: str, *options: str) -> None:
        home = self.folder / str(host)
        for part in ("local", "tmp", "work"):
            (home / part).mkdir(parents=True)
        spark = _spark_home()
        ours = {
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": self.network.address(host),
            "SPARK_LOCAL_DIRS": str(home / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            # the executors' Python workers use it too
            "TMPDIR": str(home / "tmp"),
        }
        command = (str(spark / "bin" / "spark-class"), java_class, *options)
        with (home / "log").open("ab") as log:
            self.network.start(host, command, {**os.environ, **ours}, log)

    def _wait_for_workers(self) -> None:
        end = time.monotonic() + PATIENCE
        while len(registered := self.registered()) < self.workers:
            if time.monotonic() > end:
                logs = [log.read_text(errors="replace")[-1000:] for log in sorted(self.folder.glob("*/log"))]
                raise RuntimeError(
                    f"only {len(registered)} of {self.workers} workers registered within {PATIENCE} s; their logs:\n"
                    + "\n".join(logs)
                )
            time.sleep(0.2)


def _spark_home() -> Path:
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise RuntimeError(f"{sys.executable} has no pyspark: run this with the Python of .venv")
    return Path(package.origin).parent
