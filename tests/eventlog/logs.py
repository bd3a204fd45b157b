"""Event logs for tests: an excerpt of a real log of Spark 4.3, and events made to order in the same form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

REAL = Path(__file__).parent / "golden" / "skewed.jsonl"
"""The jobs of tests/spark/event_log_job.py, waiting ten times as long; bulky fields, paths and hosts are removed."""

START = {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}
END = {"Event": "SparkListenerApplicationEnd", "Timestamp": 9_000}


def write_log(path: Path, events: Iterable[Mapping[str, Any]]) -> Path:
    path.write_bytes(b"".join(line(event) for event in events))
    return path


def line(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def application(name: str = "app") -> dict[str, Any]:
    return {"Event": "SparkListenerApplicationStart", "App Name": name, "App ID": "app-1", "Timestamp": 0}


def executor(cores: int, name: str = "1") -> dict[str, Any]:
    return {
        "Event": "SparkListenerExecutorAdded",
        "Executor ID": name,
        "Executor Info": {"Total Cores": cores},
    }


def submitted(stage: int, tasks: int, attempt: int = 0, name: str = "save at job.py:1") -> dict[str, Any]:
    return {
        "Event": "SparkListenerStageSubmitted",
        "Stage Info": info(stage, tasks, attempt, name),
        "Properties": {},
    }


def completed(stage: int, tasks: int, attempt: int = 0) -> dict[str, Any]:
    return {
        "Event": "SparkListenerStageCompleted",
        "Stage Info": info(stage, tasks, attempt, "save at job.py:1"),
    }


def info(stage: int, tasks: int, attempt: int, name: str) -> dict[str, Any]:
    return {
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Stage Name": name,
        "Number of Tasks": tasks,
        "Accumulables": [],
    }


def task(
    stage: int,
    index: int,
    started: float,
    ended: float,
    *,
    reason: str = "Success",
    speculative: bool = False,
    records: int = 100,
    attempt: int = 0,
) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Task End Reason": {"Reason": reason},
        "Task Info": {
            "Index": index,
            "Host": "h1",
            "Launch Time": round(started * 1000),
            "Finish Time": round(ended * 1000),
            "Speculative": speculative,
            "Accumulables": [],
        },
        "Task Metrics": {
            "Executor Run Time": round((ended - started) * 1000),
            "Shuffle Read Metrics": {"Total Records Read": records, "Local Bytes Read": 10 * records},
        },
    }


def uneven_stage(stage: int = 0, longest: float = 9.0) -> list[dict[str, Any]]:
    """Four tasks on four cores: three of one second, and one with `longest` times the time and the records."""
    ends = [1.0, 1.0, 1.0, longest]
    tasks = [task(stage, i, 0, end, records=round(100 * end)) for i, end in enumerate(ends)]
    return [submitted(stage, 4), *tasks, completed(stage, 4)]
