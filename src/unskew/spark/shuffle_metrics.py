"""Shuffle bytes read locally and over the network, from Spark's own task metrics."""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 30.0
"""Seconds the UI may lag behind the jobs."""

# without a proxy that the environment may name: the UI runs in the driver
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class ShuffleRead:
    """Bytes of shuffle files that tasks read from their own host, and from others over the network."""

    local: int
    remote: int

    @property
    def locality(self) -> float:
        """The share read locally; 1 if nothing was read."""
        total = self.local + self.remote
        return self.local / total if total else 1.0

    def __add__(self, other: ShuffleRead) -> ShuffleRead:
        return ShuffleRead(self.local + other.local, self.remote + other.remote)

    def __repr__(self) -> str:
        return f"ShuffleRead(local={self.local}, remote={self.remote}, locality={self.locality:.3f})"


class ShuffleMetrics:
    """The shuffle bytes that jobs have read since the last `mark` (at first: since this was created).

    Asks the REST API of the driver's UI. Without it (`spark.ui.enabled=false`, or Spark Connect, where the client
    cannot reach it) every answer is None. A mark and a reading each run a job of one row, and wait until the UI lists
    it: by then the UI lists all jobs that ended before. The UI forgets all but the last `spark.ui.retainedStages`
    stages (1000).

    >>> metrics = ShuffleMetrics(spark)  # doctest: +SKIP
    >>> unskew.groupBy(df, "user").count().collect()  # doctest: +SKIP
    >>> metrics.read()  # doctest: +SKIP
    ShuffleRead(local=51234, remote=148766, locality=0.256)
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._address = _address(spark)
        self.mark()

    def mark(self) -> None:
        """Count from here on."""
        if self._address is not None:
            self._since = self._fence(self._address)

    def read(self) -> ShuffleRead | None:
        """The bytes read since the mark, or None without a UI."""
        stages = self.by_stage()
        return None if stages is None else sum(stages.values(), ShuffleRead(0, 0))

    def by_stage(self) -> dict[int, ShuffleRead] | None:
        """The same by stage id, for stages that read from a shuffle; a stage that was retried counts again."""
        if self._address is None:
            return None
        until = self._fence(self._address)
        reads: dict[int, ShuffleRead] = {}
        for stage in _get(f"{self._address}/stages"):
            number = stage["stageId"]
            read = ShuffleRead(stage["shuffleLocalBytesRead"], stage["shuffleRemoteBytesRead"])
            if self._since < number < until and read.local + read.remote > 0:
                reads[number] = reads.get(number, ShuffleRead(0, 0)) + read
        return reads

    def __repr__(self) -> str:
        return f"ShuffleMetrics({self._address or 'without a UI'})"

    def _fence(self, address: str) -> int:
        """The stage id of a small job that the UI lists as ended: stages of earlier jobs have lower ids."""
        tag = f"unskew-{uuid.uuid4()}"
        self._spark.addTag(tag)
        try:
            self._spark.range(0, 1, 1, 1).collect()
        finally:
            self._spark.removeTag(tag)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for job in _get(f"{address}/jobs?status=succeeded"):
                # Spark puts session and thread before the tag
                if any(name.endswith(tag) for name in job["jobTags"]):
                    return int(max(job["stageIds"]))
            time.sleep(0.02)
        raise TimeoutError(
            f"Spark's UI at {address} did not list a finished job within {PATIENCE:.0f} s: call read() again"
        )


def _address(spark: SparkSession) -> str | None:
    try:
        context = spark.sparkContext
    except PySparkException:
        # Spark Connect has none.
        return None
    return context.uiWebUrl and f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"


def _get(address: str) -> list[dict[str, Any]]:
    with _OPENER.open(address, timeout=PATIENCE) as answer:
        rows: list[dict[str, Any]] = json.load(answer)
    return rows
