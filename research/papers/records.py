"""Saved experiments: one JSON file each, and the finished points of an experiment that is still running.

A file is written completely or not at all. What the seed determines and what it does not are under different keys:
without `times`, two runs with the same parameters, seed, commit and machine give the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.papers.experiment import Benchmarked, Experiment, Parameters, Record
from unskew.core import files

KIND, FORMAT = "experiment", 1


@dataclass(frozen=True)
class Task:
    """An experiment with one set of parameters, and the folder of its files.

    The quick set has its own files, so that it never replaces the full set.
    """

    experiment: Experiment
    quick: bool
    folder: Path

    @property
    def path(self) -> Path:
        """Where the finished record is."""
        return self.folder / f"{self._stem}.json"

    @property
    def points_path(self) -> Path:
        """Where finished points are saved until all are done."""
        return self.folder / f"{self._stem}.points.jsonl"

    @property
    def header(self) -> dict[str, Any]:
        """How every file of this task begins; a file with another header belongs to another task."""
        return {
            "unskew": KIND,
            "format": FORMAT,
            "name": self.experiment.name,
            "quick": self.quick,
            "parameters": as_json(self.experiment.parameter_set(self.quick)),
            "seed": self.experiment.seed,
        }

    @property
    def _stem(self) -> str:
        return f"{self.experiment.name}.quick" if self.quick else self.experiment.name


def as_json(value: Any) -> Any:
    """The value as JSON gives it back; numbers that are not finite and objects that JSON lacks are refused."""
    return json.loads(json.dumps(value, allow_nan=False))


def save(task: Task, results: Any, times: Parameters, stamp: Parameters) -> None:
    """Write the finished record."""
    content = {**task.header, "stamp": stamp, "results": results, "times": times}
    task.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    files.write(task.path, f"{text}\n".encode())


def load(task: Task) -> Record | None:
    """The record if it was saved with the task's parameters and seed, otherwise None."""
    if not task.path.exists():
        return None
    try:
        content = json.loads(task.path.read_text("utf-8"))
    except ValueError as error:
        raise files.UnreadableFileError(
            f"{task.path} is damaged: compute it again with `python -m research run {task.experiment.name} --again`"
        ) from error
    header = task.header
    if not isinstance(content, dict) or {key: content.get(key) for key in header} != header:
        return None
    return Record(
        content["name"],
        content["parameters"],
        content["seed"],
        content["results"],
        content["times"],
        content["stamp"],
        content["quick"],
    )


def benchmarked(figure: Benchmarked, folder: Path) -> Record | None:
    """The record of a figure that a benchmark measured; None if it was not measured yet."""
    path = folder / f"{figure.benchmark}.json"
    if not path.exists():
        return None
    results = json.loads(path.read_text("utf-8"))
    if figure.section not in results:
        return None
    stamp = {"commit": results["commit"], "machine": results["machine"]}
    return Record(figure.name, {}, 0, results[figure.section], {}, stamp, quick=False)


class Points:
    """Finished points of a task, one per line below the task's header.

    A line that a stop cut short is ignored, and so is a whole file with other parameters.
    """

    def __init__(self, task: Task) -> None:
        self._path = task.points_path
        self._header = task.header
        self._outcomes = self._read()

    def get(self, point: Parameters) -> dict[str, Any] | None:
        """What was saved for the point; None if it is not done."""
        return self._outcomes.get(_key(point))

    def add(self, point: Parameters, outcome: dict[str, Any]) -> None:
        """Add a point to the file."""
        if not self._outcomes:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._header) + "\n", "utf-8")
        self._outcomes[_key(point)] = outcome
        with self._path.open("a", encoding="utf-8") as file:
            # a line that a stop cut short is ended first, so that it does not spoil this one
            file.write("\n" + json.dumps({"point": point, **outcome}, allow_nan=False))

    def delete(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self._path.exists():
            return {}
        first, *rest = [_parse(line) for line in self._path.read_text("utf-8").splitlines()] or [None]
        if first != self._header:
            return {}
        return {_key(line.pop("point")): line for line in rest if line is not None}


def _key(point: Parameters) -> str:
    return json.dumps(point, sort_keys=True)


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
