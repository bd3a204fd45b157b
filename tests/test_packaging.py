"""The wheel holds the package and nothing else, and its version is that of the package.

The source distribution holds what the wheel is built from. Neither holds the tests or the research.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import unskew
from unskew.cli.machine import TESTED_PYTHONS
from unskew.jobs.toml import parsed

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist, built with the installed hatchling: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    (file,) = dist.glob("*.whl")
    return zipfile.ZipFile(file)


def source_files() -> set[PurePosixPath]:
    """The files of the package, relative to src."""
    source = ROOT / "src"
    files = (PurePosixPath(file.relative_to(source)) for file in source.rglob("*") if file.is_file())
    return {file for file in files if "__pycache__" not in file.parts}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {PurePosixPath(name) for name in wheel.namelist()}
    packaged = {name for name in names if not name.parts[0].endswith(".dist-info")}
    assert packaged == source_files()
    assert {name.parts[0] for name in packaged} == {"unskew"}
    assert {name.suffix for name in packaged} == {".py", ".css", ".html", ".js", ".parquet", ".typed"}
    assert not any(
        re.match(r"tests?\b|test_|conftest|benchmarks\b|research\b", part)
        for name in packaged
        for part in name.parts
    )


def test_the_sdist_holds_what_the_wheel_is_built_from(dist: Path) -> None:
    (file,) = dist.glob("*.tar.gz")
    with tarfile.open(file) as sdist:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in sdist.getnames()}
    top = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert names == {PurePosixPath("src") / file for file in source_files()} | set(map(PurePosixPath, top))


def test_the_wheel_runs_from_an_environment_of_its_own(dist: Path, tmp_path: Path) -> None:
    """Unpacked by pip; its dependencies are those of this environment, so that nothing is downloaded."""
    (file,) = dist.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(tmp_path / "site"), str(file)], check=True, capture_output=True)
    settings = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def printed(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=settings, check=False, capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    place = printed(sys.executable, "-c", "import unskew; print(unskew.__file__)")
    assert Path(place.strip()).is_relative_to(tmp_path)
    assert unskew.__version__ in printed(str(tmp_path / "site" / "bin" / "unskew"), "--version")
    assert "unskew" in printed(sys.executable, "-m", "unskew", "doctor", "--no-spark")


def test_the_version_has_one_place(wheel: zipfile.ZipFile) -> None:
    project = parsed((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
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
    (sentence,) = re.findall(r"; (.*) are tested", quickstart)
    assert re.findall(r"3\.\d+", sentence) == declared
