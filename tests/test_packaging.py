"""The wheel holds the package and nothing else, and its version is that of the package."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import unskew
from unskew.cli.machine import TESTED_PYTHONS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built with the hatchling that is installed: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_every_module_and_no_tests_or_data(wheel: zipfile.ZipFile) -> None:
    names = [PurePosixPath(name) for name in wheel.namelist()]
    packaged = {name for name in names if not name.parts[0].endswith(".dist-info")}
    source = ROOT / "src"
    files = {
        PurePosixPath(file.relative_to(source).as_posix()) for file in source.rglob("*") if file.is_file()
    }
    assert packaged == {file for file in files if "__pycache__" not in file.parts}
    assert {name.suffix for name in packaged} == {".py", ".css", ".html", ".js", ".typed"}
    assert not any(
        re.match(r"tests?\b|test_|conftest|benchmarks\b", part) for name in packaged for part in name.parts
    )


def test_the_version_has_one_place(wheel: zipfile.ZipFile) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert "version" not in project
    (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    assert f"\nVersion: {unskew.__version__}\n" in wheel.read(metadata).decode()
    assert f"-{unskew.__version__}-" in Path(wheel.filename or "").name


def test_the_command_is_installed(wheel: zipfile.ZipFile) -> None:
    (scripts,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "unskew = unskew.cli:app" in wheel.read(scripts).decode()


def test_the_declared_pythons_are_those_that_doctor_and_the_docs_call_tested(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    declared = re.findall(
        r"^Classifier: Programming Language :: Python :: (3\.\d+)$",
        wheel.read(metadata).decode(),
        re.MULTILINE,
    )
    assert declared == [f"{major}.{minor}" for major, minor in TESTED_PYTHONS]
    quickstart = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    (sentence,) = re.findall(r"Tested with Python ([^;]*);", quickstart)
    assert re.findall(r"3\.\d+", sentence) == declared
