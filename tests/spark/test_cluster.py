"""A cluster of several hosts on this machine: one shuffle over its links, and a worker killed while it is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from benchmarks.cluster import Cluster
from benchmarks.network import networks
from tests.spark.shuffle_job import ROWS, WIDTH


@contextmanager
def driver(cluster: Cluster, folder: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """The standard input and output of a running `shuffle_job`."""
    settings = [f"{name}={value}" for name, value in cluster.conf.items()]
    with (folder / "log").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.shuffle_job", *settings],
            cwd=folder,
            env={**os.environ, **cluster.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert job.stdin is not None
    assert job.stdout is not None
    with job:
        try:
            yield job.stdin, job.stdout
            job.stdin.close()
            assert job.wait(60) == 0
        finally:
            job.kill()


def reported(output: IO[str], folder: Path) -> dict[str, Any]:
    line = output.readline()
    assert line, (folder / "log").read_text()[-3000:]
    figures: dict[str, Any] = json.loads(line)
    return figures


@pytest.mark.usefixtures("own_spark", "several_hosts")
def test_a_shuffle_crosses_the_links_and_survives_a_killed_worker(tmp_path: Path) -> None:
    with Cluster(workers=2, rate="100mbit", memory="512m", name=f"t{os.getpid()}") as cluster:
        network = cluster.network
        first, second = network.address(1), network.address(2)
        assert cluster.registered() == {first: "ALIVE", second: "ALIVE"}
        with driver(cluster, tmp_path) as (job_input, output):
            whole = reported(output, tmp_path)
            assert whole["rows"].keys() == {first, second}
            assert whole["sum"] == sum(range(ROWS))
            # Two shuffles, half of each between the hosts, unless Spark manages to read more locally.
            assert 2 * ROWS * WIDTH < whole["local"] + whole["remote"] < 2.2 * ROWS * WIDTH
            assert 0.1 < whole["remote"] / (whole["local"] + whole["remote"]) < 0.9

            job_input.write(f"{tmp_path}\n")
            job_input.flush()
            while not (tmp_path / "reading").exists():
                time.sleep(0.05)
            network.kill(1)
            rest = reported(output, tmp_path)
            assert rest["rows"] == {second: ROWS}
            assert rest["sum"] == sum(range(ROWS))
        running = network.processes(2)
        assert running
    assert cluster.name not in networks()
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in running)
    assert not cluster.folder.exists()


def test_a_cluster_too_large_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="between 1 and 6, not 7"):
        Cluster(workers=7)
