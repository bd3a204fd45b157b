"""Batch jobs and live queries on several hosts, one of which is killed or cut off during the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.cluster import Cluster
from benchmarks.network import why_not
from tests.faults.outcome import Outcome
from tests.faults.process import Job, wait
from tests.faults.replay import Place

WORKERS = 4
LONG = 600
"""Seconds: all hosts share the cores of this machine."""

SETTINGS = {
    # a host that is cut off is silent: Spark would wait two minutes for it
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "40s",
    "spark.network.timeoutInterval": "2s",
    # the JVMs are short-lived: compiling is not worth it
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


def on_hosts(root: Path) -> Iterator[Outcome]:
    """First without a fault on four hosts, then with one host cut off and reconnected, then with two killed in turn."""
    reason = why_not()
    if reason is not None:
        yield Outcome("several hosts", "skip", 0.0, reason)
        return
    with Cluster(WORKERS, "100mbit", memory="768m", name=f"f{os.getpid()}") as cluster:
        yield _batch(root, cluster, "batch on several hosts")
        yield from _streams(root, cluster)
        yield _batch(root, cluster, "batch, a worker killed", killed=WORKERS - 1)


def _streams(root: Path, cluster: Cluster) -> Iterator[Outcome]:
    place = Place.at(root / "totals", "totals")
    network = cluster.network
    with Job(root / "home", master=cluster.url, settings=_settings(cluster), env=cluster.env) as job:
        yield _stream(job, place, "stream on several hosts", None)
        yield _stream(job, place, "stream, a worker cut off", lambda: network.cut(1))
        network.reconnect(1)
        yield _stream(job, place, "stream, a worker killed", lambda: network.kill(WORKERS))


def _stream(job: Job, place: Place, name: str, harm: Callable[[], None] | None) -> Outcome:
    """A run of several more batches; `harm` is called when two of them are committed."""
    before = len(place.committed())
    place.grow(6)
    started = time.perf_counter()
    job.send(place.request())
    if harm is not None:
        wait(lambda: len(place.committed()) > before + 1, LONG)
        harm()
    answer = job.answer(LONG)
    spent = time.perf_counter() - started
    if answer is None or not answer["ok"]:
        return Outcome(name, "error", spent, "died" if answer is None else answer["error"])
    moved = [batch for batch in place.moved() if batch >= before]
    note = f"{len(moved)} of {len(place.committed()) - before} batches moved state"
    return Outcome.of(name, place.wrong(), spent, note, fault=harm is not None)


def _batch(root: Path, cluster: Cluster, name: str, killed: int | None = None) -> Outcome:
    """Measure, groupBy and join against plain Spark; the worker is killed as soon as it runs Python."""
    log = root / "batch-log"
    started = time.perf_counter()
    with log.open("wb") as errors:
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster_job", *_settings(cluster)],
            cwd=root,
            env={**os.environ, **cluster.env},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with job:
        try:
            if killed is not None:
                wait(lambda: len(cluster.network.processes(killed)) > 2, LONG)  # worker, executor, Python
                cluster.network.kill(killed)
            output, _ = job.communicate(timeout=LONG)
        finally:
            job.kill()
    spent = time.perf_counter() - started
    if job.returncode != 0:
        return Outcome(name, "error", spent, log.read_text()[-300:])
    checks = json.loads(output.splitlines()[-1])
    wrong = [what for what in ("measured", "groups", "join") if not checks[what]]
    if killed is None and checks["processes"] != cluster.workers:
        wrong.append(f"{checks['processes']} executors did the work")
    return Outcome.of(name, wrong, spent, fault=killed is not None)


def _settings(cluster: Cluster) -> list[str]:
    return [f"{name}={value}" for name, value in {**cluster.conf, **SETTINGS}.items()]
