"""Saved experiments: one JSON file each, and the points of one that is still under way.

A file is written whole or not at all. What the seed determines and what it does not are under different keys:
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
    """An experiment with one set of parameters, and the folder its files are in.

    The quick set has files of its own, so that it never replaces the full one.
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
        """Where finished points are kept until all are done."""
        return self.folder / f"{self._stem}.points.jsonl"

    @property
    def identity(self) -> dict[str, Any]:
        """What a saved file must have been made with to stand for this task."""
        parameters = plain(self.experiment.chosen(self.quick))
        return {
            "unskew": KIND,
            "format": FORMAT,
            "name": self.experiment.name,
            "quick": self.quick,
            "parameters": parameters,
            "seed": self.experiment.seed,
        }

    @property
    def _stem(self) -> str:
        return f"{self.experiment.name}.quick" if self.quick else self.experiment.name


def plain(value: Any) -> Any:
    """The value as it is read back from JSON; what is not finite or no plain data is refused."""
    return json.loads(json.dumps(value, allow_nan=False))


def save(task: Task, results: Any, times: Parameters, stamp: Parameters) -> None:
    """Write the finished record."""
    content = {**task.identity, "stamp": stamp, "results": results, "times": times}
    task.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    files.write(task.path, f"{text}\n".encode())


def load(task: Task) -> Record | None:
    """The record if it is there and was made with the task's parameters and seed, else None."""
    if not task.path.exists():
        return None
    try:
        found = json.loads(task.path.read_text("utf-8"))
    except ValueError as error:
        raise files.UnreadableFileError(
            f"{task.path}: damaged: run {task.experiment.name} with --again"
        ) from error
    identity = task.identity
    if not isinstance(found, dict) or {key: found.get(key) for key in identity} != identity:
        return None
    return Record(
        found["name"],
        found["parameters"],
        found["seed"],
        found["results"],
        found["times"],
        found["stamp"],
        found["quick"],
    )


def benchmarked(figure: Benchmarked, folder: Path) -> Record | None:
    """The record of a figure that a benchmark measured, if its results are there."""
    path = folder / f"{figure.benchmark}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text("utf-8"))
    if figure.section not in found:
        return None
    stamp = {"commit": found["commit"], "machine": found["machine"]}
    return Record(figure.name, {}, 0, found[figure.section], {}, stamp, quick=False)


class Points:
    """Finished points of a task, appended one a line under a line with the task's identity.

    A line that a stop cut short, and everything in a file of other parameters, is as if never written.
    """

    def __init__(self, task: Task) -> None:
        self._path = task.points_path
        self._identity = task.identity
        self._done = self._read()

    def get(self, point: Parameters) -> dict[str, Any] | None:
        """What was kept for the point."""
        return self._done.get(_key(point))

    def keep(self, point: Parameters, outcome: dict[str, Any]) -> None:
        """Add a point to the file."""
        if not self._done:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._identity) + "\n", "utf-8")
        self._done[_key(point)] = outcome
        with self._path.open("a", encoding="utf-8") as file:
            # a line cut short by a stop is ended first, so that it spoils no other
            file.write("\n" + json.dumps({"point": point, **outcome}, allow_nan=False))

    def forget(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self._path.exists():
            return {}
        first, *rest = [_parsed(line) for line in self._path.read_text("utf-8").splitlines()] or [None]
        if first != self._identity:
            return {}
        return {_key(line.pop("point")): line for line in rest if line is not None}


def _key(point: Parameters) -> str:
    return json.dumps(point, sort_keys=True)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
