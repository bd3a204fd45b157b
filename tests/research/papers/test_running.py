from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from research.papers import provenance, running
from research.papers.experiment import Run
from research.papers.running import compute, run_all
from tests.research.papers.small import Dice, experiment
from unskew.core.files import UnreadableFileError


def saved(folder: Path, name: str = "dice-2") -> dict[str, Any]:
    return dict(json.loads((folder / f"{name}.json").read_text("utf-8")))


def without_times(folder: Path) -> str:
    content = saved(folder)
    del content["times"]
    return json.dumps(content)


def test_the_same_seed_gives_the_same_bytes_except_times(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        run_all([experiment(Dice())], tmp_path / folder)
    assert without_times(tmp_path / "one") == without_times(tmp_path / "two")
    run_all([experiment(Dice(), seed=7)], tmp_path / "three")
    assert without_times(tmp_path / "one") != without_times(tmp_path / "three")


def test_a_record_has_the_parameters_commit_and_machine_it_was_computed_with(tmp_path: Path) -> None:
    (record,) = run_all([experiment(Dice())], tmp_path)
    content = saved(tmp_path)
    assert (content["format"], content["seed"], content["parameters"]) == (1, 0, {"sides": [6, 8, 20]})
    assert set(content["stamp"]) == {"commit", "machine"}
    assert set(content["stamp"]["machine"]) == {"cpu", "cores", "system", "python"}
    assert record.results == content["results"]


def test_times_are_stored_apart_and_by_point(tmp_path: Path) -> None:
    (record,) = run_all([experiment(Dice())], tmp_path)
    assert [point["parts"] for point in record.times["points"]] == [{"rolling": 0.5}] * 3
    assert record.times["seconds"] == pytest.approx(sum(p["seconds"] for p in record.times["points"]))
    assert "rolling" not in json.dumps(record.results)


def test_a_saved_experiment_is_not_computed_again_unless_asked(tmp_path: Path) -> None:
    dice = Dice()
    first = run_all([experiment(dice)], tmp_path)
    assert run_all([experiment(dice)], tmp_path) == first
    assert dice.thrown == [6, 8, 20]
    run_all([experiment(dice)], tmp_path, again=True)
    assert dice.thrown == [6, 8, 20] * 2


def test_other_parameters_are_computed_again(tmp_path: Path) -> None:
    dice = Dice()
    run_all([experiment(dice)], tmp_path)
    (record,) = run_all([replace(experiment(dice), parameters={"sides": [4]})], tmp_path)
    assert record.parameters == {"sides": [4]}
    assert dice.thrown == [6, 8, 20, 4]


def test_the_quick_set_does_not_replace_the_full_one(tmp_path: Path) -> None:
    (full,) = run_all([experiment(Dice())], tmp_path)
    (quick,) = run_all([experiment(Dice())], tmp_path, quick=True)
    assert quick.parameters == {"sides": [6]}
    assert run_all([experiment(Dice())], tmp_path) == [full]


def stopped(dice: Dice, folder: Path) -> None:
    dice.stop_at = 20
    with pytest.raises(KeyboardInterrupt):
        run_all([experiment(dice)], folder)
    dice.stop_at = None


def test_a_stopped_run_continues_where_it_stopped(tmp_path: Path) -> None:
    dice = Dice()
    stopped(dice, tmp_path)
    (record,) = run_all([experiment(dice)], tmp_path)
    assert dice.thrown == [6, 8, 20]
    assert record.results == compute(experiment(Dice())).results
    assert [path.name for path in tmp_path.iterdir()] == ["dice-2.json"]


def test_a_run_that_continued_after_a_commit_names_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Dice()
    monkeypatch.setattr(running, "commit", lambda: "abc1234")
    stopped(dice, tmp_path)
    monkeypatch.setattr(running, "commit", lambda: "def5678")
    (record,) = run_all([experiment(dice)], tmp_path)
    assert record.stamp["commit"] == "abc1234, def5678"
    (record,) = run_all([experiment(dice)], tmp_path, again=True)
    assert record.stamp["commit"] == "def5678"


def test_a_line_cut_short_is_measured_again(tmp_path: Path) -> None:
    dice = Dice()
    stopped(dice, tmp_path)
    points = tmp_path / "dice-2.points.jsonl"
    points.write_text(points.read_text("utf-8")[:-9], "utf-8")
    (record,) = run_all([experiment(dice)], tmp_path)
    assert dice.thrown == [6, 8, 8, 20]
    assert record.results == compute(experiment(Dice())).results


def test_points_of_another_seed_are_ignored(tmp_path: Path) -> None:
    dice = Dice()
    stopped(dice, tmp_path)
    (record,) = run_all([experiment(dice, seed=7)], tmp_path)
    assert record.results == compute(experiment(Dice(), seed=7)).results


def test_a_damaged_record_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "dice-2.json").write_text('{"unskew": "exper', "utf-8")
    with pytest.raises(UnreadableFileError, match=r"dice-2\.json.*--again"):
        run_all([experiment(Dice())], tmp_path)
    run_all([experiment(Dice())], tmp_path, again=True)


def test_numbers_that_json_lacks_are_refused(tmp_path: Path) -> None:
    def endless(run: Run) -> float:
        return float("inf")

    with pytest.raises(ValueError, match="JSON"):
        run_all([replace(experiment(Dice()), compute=endless)], tmp_path)
    assert not (tmp_path / "dice-2.json").exists()


def test_spark_is_refused_to_an_experiment_that_does_not_declare_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"dice-2.*needs_spark"):
        run_all([replace(experiment(Dice()), compute=lambda run: run.spark.version)], tmp_path)


def test_progress_is_reported_before_every_point(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    run_all([experiment(Dice())], tmp_path, progress=lambda *step: steps.append(step))
    assert steps[1:4] == [("dice-2", 0, 3), ("dice-2", 1, 3), ("dice-2", 2, 3)]


def test_a_changed_record_does_not_make_a_commit_dirty_and_changed_code_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {"ls-files": "provenance.py", "describe": "abc1234", "status": ""}
    asked: list[tuple[str, ...]] = []

    def git(*arguments: str, folder: Path) -> str:
        asked.append(arguments)
        return answers[arguments[0]]

    monkeypatch.setattr(provenance, "_git", git)
    assert provenance.commit() == "abc1234"
    (status,) = (arguments for arguments in asked if arguments[0] == "status")
    assert status[status.index("--") + 1 :] == ("src", "research", "requirements.lock")
    answers["status"] = " M src/unskew/core/plan.py"
    assert provenance.commit() == "abc1234-dirty"


def test_a_new_module_that_is_not_committed_makes_a_commit_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "research" / "papers" / "provenance.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "a"]):
        subprocess.run([*git, *arguments], check=True)
    monkeypatch.setattr(provenance, "__file__", str(module))
    clean = provenance.commit()
    module.with_name("new.py").write_text("")
    assert provenance.commit() == f"{clean}-dirty"
