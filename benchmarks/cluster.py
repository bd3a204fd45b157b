"""A Spark standalone cluster on one machine, each worker on a host of its own: for benchmarks and tests.

It is here and not in `scripts`, which is no package, so that both can import it; `scripts/cluster.py` is its command
line. The Spark is the one that pip installed, without an external shuffle service. Every worker keeps its files in a
folder of its own, so what a task reads of another worker's shuffle files comes over the link.
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
"""The host of the master; workers are hosts 1, 2, …"""

MOST_WORKERS = 6
PATIENCE = 180
"""Seconds in which all workers must have registered."""


@dataclass(frozen=True)
class Cluster:
    """A master and `workers` workers, each with `cores`, `memory` and a link of `rate`; stopped on leaving a `with`.

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
            raise ValueError(f"there are 1 to {MOST_WORKERS} workers, not {self.workers}")
        bits_per_second(self.rate)  # a wrong one is told before anything starts

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def network(self) -> Network:
        """The hosts and links: to cut, mend, kill and limit."""
        return Network(self.name)

    @property
    def url(self) -> str:
        """The master's address, for Spark."""
        return f"spark://{self.network.address(MASTER)}:7077"

    @property
    def conf(self) -> dict[str, str]:
        """What a session of the driver must set; `env` says what its environment must have."""
        gateway = self.network.gateway
        return {
            "spark.master": self.url,
            "spark.driver.host": gateway,
            "spark.driver.bindAddress": gateway,
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": self.memory,
            "spark.executorEnv.PYTHONPATH": PYTHONPATH,
            # a task on the executor that starts first would otherwise do all the work
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        }

    @property
    def env(self) -> dict[str, str]:
        """What the environment of the driver must have."""
        return {
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": PYTHONPATH,
            "SPARK_LOCAL_IP": self.network.gateway,
        }

    @property
    def folder(self) -> Path:
        """Logs and local files, a folder for each host; removed by `stop`."""
        return Path(tempfile.gettempdir()) / f"unskew-cluster-{self.name}"

    def start(self) -> None:
        """Start everything and wait until all workers have registered; what a failed start began is stopped."""
        reason = why_not()
        if reason is not None:
            raise RuntimeError(f"no cluster can be started: {reason}")
        self.network.create()
        try:
            shutil.rmtree(self.folder, ignore_errors=True)  # of a cluster that ended with its machine
            self.folder.mkdir(mode=0o700)
            self._start_master()
            for worker in range(1, self.workers + 1):
                self._start_worker(worker)
            self._wait_for_workers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything and leave nothing behind, whatever there is, and whoever started it."""
        self.network.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def limit(self, rate: str) -> None:
        """Change the rate of all workers' links."""
        for host in self.network.hosts():
            if host != MASTER:
                self.network.limit(host, rate)

    def registered(self) -> dict[str, str]:
        """The state of each worker as its master sees it, by address; nothing if the master does not answer."""
        try:
            # not by a proxy that the environment may name
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
            "TMPDIR": str(home / "tmp"),  # also of the executors' Python workers
        }
        command = (str(spark / "bin" / "spark-class"), java_class, *options)
        with (home / "log").open("ab") as log:
            self.network.start(host, command, {**os.environ, **ours}, log)

    def _wait_for_workers(self) -> None:
        end = time.monotonic() + PATIENCE
        while len(found := self.registered()) < self.workers:
            if time.monotonic() > end:
                logs = [log.read_text(errors="replace")[-1000:] for log in sorted(self.folder.glob("*/log"))]
                told = "\n".join(logs)
                raise RuntimeError(
                    f"{len(found)} of {self.workers} workers registered within {PATIENCE} s:\n{told}"
                )
            time.sleep(0.2)


def _spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise RuntimeError(f"there is no pyspark in {sys.executable}: run this with the Python of .venv")
    return Path(found.origin).parent
