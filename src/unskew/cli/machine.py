"""Whether a machine has what unskew needs. Nothing here imports PySpark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from unskew.core.text_enum import TextEnum

TESTED_PYTHONS = ((3, 10), (3, 11), (3, 12), (3, 13))
"""Those of the classifiers in pyproject.toml."""

_GB = 1 << 30
_OLDEST_JAVA = 17

_LEAST_MEMORY = 4 * _GB
"""A driver of 1 GB, its Python workers, and the rest of the machine."""

_LEAST_DISK, _LITTLE_DISK = _GB // 2, 5 * _GB
"""Free space below which a shuffle will fail, and below which it may."""

_TIMEOUT = 60
"""Seconds for another program to print its version, on a busy machine."""

_PRINT_VERSION = (
    "import sys; from importlib.util import find_spec; "
    "print(*sys.version_info[:2], all(map(find_spec, ('pandas', 'pyarrow'))))"
)
"""Run by the workers' Python: its version, and whether it has pandas and PyArrow."""


class Status(TextEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """One thing that was checked: what it is like, and what to do if that is not enough."""

    name: str
    status: Status
    detail: str
    advice: str = ""


def check_machine(environ: Mapping[str, str]) -> Iterator[Check]:
    """Every check that needs no Spark, the quick ones first."""
    yield check_python(sys.version_info[:2])
    yield from check_packages(_requirements())
    yield check_java(environ)
    yield check_workers(environ)
    yield check_cores(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    yield check_memory(memory())
    for folder in environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(","):
        yield check_folder(Path(folder))


def check_python(version: tuple[int, int]) -> Check:
    """The version of this Python."""
    detail = f"{version[0]}.{version[1]}, {sys.executable}"
    if version > max(TESTED_PYTHONS):
        tested = ", ".join(f"{major}.{minor}" for major, minor in TESTED_PYTHONS)
        return Check("Python", Status.WARNING, detail, f"unskew was tested with Python {tested}")
    return Check("Python", Status.OK, detail)


def check_packages(requirements: Iterable[str]) -> Iterator[Check]:
    """One check for unskew's own requirements and one for each extra, from `importlib.metadata.requires`."""
    packages: dict[str, list[tuple[str, str]]] = {"": [], **{name: [] for name in _EXTRAS}}
    for requirement in requirements:
        match = re.fullmatch(r"([\w.-]+)\s*([^;]*?)\s*(?:;\s*extra == ['\"](\w+)['\"])?", requirement)
        if match and (match[3] or "") in packages:
            packages[match[3] or ""].append((match[1], match[2]))
    for extra, required in packages.items():
        yield _check_extra(extra, required)


def check_java(environ: Mapping[str, str]) -> Check:
    """The Java that Spark will start: that of JAVA_HOME, else the one on the PATH."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return Check("Java", Status.PROBLEM, "no Java on the PATH", _java_advice())
    version = java_version(java)
    location = f"{java}{' (JAVA_HOME)' * bool(home)}"
    if version is None:
        return Check("Java", Status.PROBLEM, f"no Java at {location}", _java_advice())
    if version < _OLDEST_JAVA:
        return Check("Java", Status.PROBLEM, f"version {version}, {location}", _java_advice())
    return Check("Java", Status.OK, f"version {version}, {location}")


def check_workers(environ: Mapping[str, str]) -> Check:
    """The Python that Spark starts for functions on groups: it must be this version, with pandas and PyArrow."""
    name = "Python of workers"
    variable = environ.get("PYSPARK_PYTHON")
    program = variable or "python3"
    origin = "PYSPARK_PYTHON" if variable else "PYSPARK_PYTHON is not set"
    advice = f"export PYSPARK_PYTHON={sys.executable}"
    output = _output([program, "-c", _PRINT_VERSION], environ)
    if output is None:
        return Check(name, Status.PROBLEM, f"{program} ({origin}) does not run", advice)
    major, minor, has_packages = output.split()
    detail = f"{major}.{minor}, {program} ({origin})"
    if (int(major), int(minor)) != sys.version_info[:2]:
        return Check(name, Status.PROBLEM, f"{detail}: not the version of this Python", advice)
    if has_packages != "True":
        return Check(name, Status.PROBLEM, f"{detail}: lacks pandas or PyArrow", advice)
    return Check(name, Status.OK, detail)


def check_cores(cores: int) -> Check:
    """How many tasks can run at once here."""
    if cores > 1:
        return Check("Cores", Status.OK, str(cores))
    advice = "with one core tasks run one after the other, so placing keys gains nothing"
    return Check("Cores", Status.WARNING, "1", advice)


def check_memory(size: int | None) -> Check:
    """Memory against what Spark takes by default."""
    if size is None:
        return Check("Memory", Status.WARNING, "unknown", "make sure that Spark has at least 4 GB")
    detail = f"{size / _GB:.1f} GB; Spark's driver takes 1 GB unless spark.driver.memory is set"
    if size < _LEAST_MEMORY:
        least = f"{_LEAST_MEMORY // _GB} GB"
        advice = f"use at least {least}: a driver of 1 GB, one Python worker per core, and everything else"
        return Check("Memory", Status.WARNING, detail, advice)
    return Check("Memory", Status.OK, detail)


def check_folder(folder: Path) -> Check:
    """Whether Spark can write its shuffle files."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        advice = "make it writable, or set SPARK_LOCAL_DIRS to a folder that is"
        return Check("Scratch folder", Status.PROBLEM, f"{folder}: {error.strerror}", advice)
    detail = f"{folder}, {free / _GB:.1f} GB free"
    if free >= _LITTLE_DISK:
        return Check("Scratch folder", Status.OK, detail)
    status = Status.PROBLEM if free < _LEAST_DISK else Status.WARNING
    advice = "make room, because shuffles are written there, or set SPARK_LOCAL_DIRS to another folder"
    return Check("Scratch folder", status, detail, advice)


def java_version(java: str) -> int | None:
    """The major version of a Java, or None if it does not run."""
    output = _output([java, "-version"], os.environ)
    match = re.search(r' version "(?:1\.)?(\d+)', output or "")
    return int(match[1]) if match else None


def memory() -> int | None:
    """Bytes of memory: the machine's, or what this container may use of it."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
    limits = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
    texts = [limit.read_text().strip() for limit in limits if limit.is_file()]
    return min([machine, *(int(text) for text in texts if text.isdigit())])


_EXTRAS = {
    "spark": "Spark jobs and streams",
    "cli": "the command line and reports",
    "locality": "plans for correlated keys",
    "bench": "benchmarks",
}
_NEEDED = ("", "spark", "cli")


def _requirements() -> list[str]:
    try:
        return requires("unskew") or []
    except PackageNotFoundError:
        return []  # run from its source: there are no declared requirements to compare with


def _check_extra(extra: str, required: list[tuple[str, str]]) -> Check:
    name = f"unskew[{extra}]" if extra else "unskew"
    if not required:
        return Check(name, Status.WARNING, "not installed as a package", f"pip install '{name}'")
    versions = {package: _version(package) for package, _ in required}
    problems = []
    for package, limits in required:
        installed = versions[package]
        if installed is None:
            problems.append(f"{package} is missing")
        elif not satisfies(installed, limits):
            problems.append(f"{package} {installed} (needs {limits})")
    if not problems:
        return Check(name, Status.OK, ", ".join(f"{package} {versions[package]}" for package, _ in required))
    if extra in _NEEDED:
        return Check(name, Status.PROBLEM, ", ".join(problems), f"pip install '{name}'")
    return Check(name, Status.OK, f"not installed: only needed for {_EXTRAS[extra]}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def satisfies(installed: str, limits: str) -> bool:
    """Whether a version is within limits such as `>=2.2,<3` or `==4.3.*`, the forms that unskew uses.

    >>> [satisfies(v, "<3,>=2.2") for v in ("2.1.9", "2.2", "3.0.1")]
    [False, True, False]
    >>> satisfies("4.3.1.dev0", "==4.3.*"), satisfies("4.4.0", "==4.3.*")
    (True, False)
    """
    version = _numbers(installed)
    for limit in limits.split(","):
        bound = _numbers(limit)
        if limit.startswith("==") and version[: len(bound)] != bound:
            return False
        if limit.startswith(">=") and version < bound:
            return False
        if limit.startswith("<") and version >= bound:
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    match = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def _java_advice() -> str:
    usable = [
        home
        for home in sorted(Path("/usr/lib/jvm").glob("*"))
        if (java_version(str(home / "bin" / "java")) or 0) >= _OLDEST_JAVA
    ]
    if usable:
        return f"export JAVA_HOME={usable[0]}"
    return f"install Java {_OLDEST_JAVA} or newer, and set JAVA_HOME if it is not on the PATH"


def _output(command: list[str], environ: Mapping[str, str]) -> str | None:
    """What a program prints to standard output and standard error, or None if it fails."""
    try:
        process = subprocess.run(
            command,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout
