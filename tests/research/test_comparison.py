import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from research.comparison import RUNS, TARGETS, Setting, make_page, ranking, simulate
from tests.report.html_facts import Page, assert_self_contained, read
from unskew.core.planners import PLANNERS

ROOT = Path(__file__).parents[2]
TINY = ["--windows", "3", "--keys", "300", "--draws", "5000", "--slots", "4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The comparison on a tiny stream in an empty folder: the folder, and the standard output."""
    folder = tmp_path_factory.mktemp("comparison")
    command = [sys.executable, "-W", "error", "-m", "research", "compare", *TINY, "--picture", "new/demo.svg"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        command, cwd=folder, env=environ, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    return folder, result.stdout


@pytest.fixture(scope="module")
def page(run: tuple[Path, str]) -> Page:
    return read((run[0] / "out" / "planners.html").read_text("utf-8"))


def test_the_last_line_printed_is_the_path_of_the_page(run: tuple[Path, str]) -> None:
    folder, printed = run
    last = printed.splitlines()[-1]
    assert Path(last) == Path("out/planners.html")
    assert (folder / last).is_file()


def test_the_terminal_and_the_page_name_every_planner(run: tuple[Path, str], page: Page) -> None:
    cells = {line.split("│")[1].strip() for line in run[1].splitlines() if line.startswith("│")}
    assert cells == set(PLANNERS)
    assert all(name in page.text for name in PLANNERS)


def test_the_page_is_self_contained(page: Page) -> None:
    assert_self_contained(page)
    assert len(page.data) == 5
    assert not any("http" in spec for spec in page.data)


def test_the_picture_is_small_and_shows_keel_hash_and_the_bound(run: tuple[Path, str]) -> None:
    path = run[0] / "new" / "demo.svg"
    assert path.stat().st_size < 200_000
    texts = {"".join(node.itertext()) for node in ET.parse(path).iter() if node.tag.endswith("}text")}
    assert {"keel", "hash", "lower bound"} <= texts


def test_planners_are_ranked_by_imbalance_and_progress_is_reported() -> None:
    reports: list[int] = []
    results = simulate(Setting(2, 200, 2_000, 4), lambda done, what: reports.append(done))
    assert reports == list(range(RUNS))
    rows = ranking(results)
    assert sorted(row["planner"] for row in rows) == sorted(PLANNERS)
    imbalances = [round(row["over_bound"], 4) for row in rows]
    assert imbalances == sorted(imbalances)
    assert list(results.targets) == list(TARGETS)
    split = {row["planner"] for row in rows if row["keys"] == "split"}
    assert split == {"pkg", "dkg-pkg", "wrap-around"}
    keel = next(row for row in rows if row["planner"] == "keel")
    assert f"{keel['imbalance']:.2f} × mean" in read(make_page(results)).text
