"""What unskew needs of a machine, and whether it is there. Nothing here imports PySpark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

_GB = 1 << 30
_OLDEST_JAVA = 17
TESTED_PYTHONS = ((3, 11), (3, 12), (3, 13))  # those of the classifiers in pyproject.toml
_LEAST_MEMORY = 4 * _GB  # a driver of 1 GB, its Python workers, and the rest of the machine
_LEAST_DISK, _LITTLE_DISK = _GB // 2, 5 * _GB
_SECONDS = 60  # for another program to tell its version, on a busy machine
_ABOUT_PYTHON = (
    "import sys; from importlib.util import find_spec; "
    "print(*sys.version_info[:2], all(map(find_spec, ('pandas', 'pyarrow'))))"
)


class Status(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was found, and what to do if it is not fine."""

    name: str
    status: Status
    found: str
    advice: str = ""


def checks(environ: Mapping[str, str]) -> Iterator[Check]:
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


def check_python(found: tuple[int, int]) -> Check:
    """The version of this Python."""
    text = f"{found[0]}.{found[1]}, {sys.executable}"
    if found > max(TESTED_PYTHONS):
        tested = ", ".join(f"{major}.{minor}" for major, minor in TESTED_PYTHONS)
        return Check("Python", Status.WARNING, text, f"unskew was tested with Python {tested}")
    return Check("Python", Status.OK, text)


def check_packages(requirements: Iterable[str]) -> Iterator[Check]:
    """One check for unskew's own requirements and one for each extra, from `importlib.metadata.requires`."""
    extras: dict[str, list[tuple[str, str]]] = {"": [], **{name: [] for name in _EXTRAS}}
    for text in requirements:
        found = re.fullmatch(r"([\w.-]+)\s*([^;]*?)\s*(?:;\s*extra == ['\"](\w+)['\"])?", text)
        if found and (found[3] or "") in extras:
            extras[found[3] or ""].append((found[1], found[2]))
    for extra, wanted in extras.items():
        yield _check_extra(extra, wanted)


def check_java(environ: Mapping[str, str]) -> Check:
    """The Java that Spark would start: that of JAVA_HOME, else the one on the PATH."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        return Check("Java", Status.PROBLEM, "no Java on the PATH", _java_advice())
    major = java_major(java)
    where = f"{java}{' (JAVA_HOME)' * bool(home)}"
    if major is None:
        return Check("Java", Status.PROBLEM, f"no Java at {where}", _java_advice())
    if major < _OLDEST_JAVA:
        return Check("Java", Status.PROBLEM, f"version {major}, {where}", _java_advice())
    return Check("Java", Status.OK, f"version {major}, {where}")


def check_workers(environ: Mapping[str, str]) -> Check:
    """The Python that Spark starts for functions on groups: it must be this version, with pandas and PyArrow."""
    named = environ.get("PYSPARK_PYTHON")
    program = named or "python3"
    said = "PYSPARK_PYTHON" if named else "PYSPARK_PYTHON is not set"
    advice = f"export PYSPARK_PYTHON={sys.executable}"
    told = _output([program, "-c", _ABOUT_PYTHON], environ)
    if told is None:
        return Check("Python of workers", Status.PROBLEM, f"{program} ({said}) does not run", advice)
    major, minor, equipped = told.split()
    found = f"{major}.{minor}, {program} ({said})"
    if (int(major), int(minor)) != sys.version_info[:2]:
        return Check("Python of workers", Status.PROBLEM, f"{found}: not the version of this one", advice)
    if equipped != "True":
        return Check("Python of workers", Status.PROBLEM, f"{found}: lacks pandas or PyArrow", advice)
    return Check("Python of workers", Status.OK, found)


def check_cores(cores: int) -> Check:
    """How many tasks can run at once here."""
    if cores > 1:
        return Check("Cores", Status.OK, str(cores))
    return Check(
        "Cores", Status.WARNING, "1", "with one core tasks run in turn, so nothing is gained by placing keys"
    )


def check_memory(size: int | None) -> Check:
    """Memory against what Spark takes by default."""
    if size is None:
        return Check("Memory", Status.WARNING, "unknown", "see that Spark has at least 4 GB")
    found = f"{size / _GB:.1f} GB; Spark's driver takes 1 GB unless told otherwise (spark.driver.memory)"
    if size < _LEAST_MEMORY:
        advice = f"have {_LEAST_MEMORY // _GB} GB: a driver of 1 GB, a Python worker a core, and the rest"
        return Check("Memory", Status.WARNING, found, advice)
    return Check("Memory", Status.OK, found)


def check_folder(folder: Path) -> Check:
    """Whether Spark can write its shuffle files."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        advice = "make it writable, or set SPARK_LOCAL_DIRS to a folder that is"
        return Check("Scratch folder", Status.PROBLEM, f"{folder}: {error.strerror}", advice)
    found = f"{folder}, {free / _GB:.1f} GB free"
    if free >= _LITTLE_DISK:
        return Check("Scratch folder", Status.OK, found)
    status = Status.PROBLEM if free < _LEAST_DISK else Status.WARNING
    return Check(
        "Scratch folder", status, found, "make room: shuffles are written there, or set SPARK_LOCAL_DIRS"
    )


def java_major(java: str) -> int | None:
    """The major version of a Java, or none if it does not run."""
    told = _output([java, "-version"], os.environ)
    found = re.search(r' version "(?:1\.)?(\d+)', told or "")
    return int(found[1]) if found else None


def memory() -> int | None:
    """Bytes of memory: the machine's, or what this container may use of it."""
    try:
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
    limits = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
    told = [limit.read_text().strip() for limit in limits if limit.is_file()]
    return min([machine, *(int(text) for text in told if text.isdigit())])


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
        return []  # run from its source: then there is nothing to hold versions against


def _check_extra(extra: str, wanted: list[tuple[str, str]]) -> Check:
    name = f"unskew[{extra}]" if extra else "unskew"
    if not wanted:
        return Check(name, Status.WARNING, "not installed as a package", f"pip install '{name}'")
    have = {package: _version(package) for package, _ in wanted}
    wrong = [
        f"{package} {have[package] or 'is missing'}{_wants(have[package], limits)}"
        for package, limits in wanted
        if have[package] is None or not satisfies(have[package] or "", limits)
    ]
    if not wrong:
        return Check(name, Status.OK, ", ".join(f"{package} {have[package]}" for package, _ in wanted))
    if extra in _NEEDED:
        return Check(name, Status.PROBLEM, ", ".join(wrong), f"pip install '{name}'")
    return Check(name, Status.OK, f"not installed: only needed for {_EXTRAS[extra]}")


def _wants(have: str | None, limits: str) -> str:
    return f" (needs {limits})" if have else ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def satisfies(found: str, limits: str) -> bool:
    """Whether a version is within limits such as `>=2.2,<3` or `==4.3.*`, the forms that unskew uses.

    >>> [satisfies(v, "<3,>=2.2") for v in ("2.1.9", "2.2", "3.0.1")]
    [False, True, False]
    >>> satisfies("4.3.1.dev0", "==4.3.*"), satisfies("4.4.0", "==4.3.*")
    (True, False)
    """
    have = _numbers(found)
    for limit in limits.split(","):
        bound = _numbers(limit)
        if limit.startswith("==") and have[: len(bound)] != bound:
            return False
        if limit.startswith(">=") and have < bound:
            return False
        if limit.startswith("<") and have >= bound:
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def _java_advice() -> str:
    usable = [
        home
        for home in sorted(Path("/usr/lib/jvm").glob("*"))
        if (java_major(str(home / "bin" / "java")) or 0) >= _OLDEST_JAVA
    ]
    if usable:
        return f"export JAVA_HOME={usable[0]}"
    return f"install Java {_OLDEST_JAVA} or newer, and set JAVA_HOME if it is not on the PATH"


def _output(command: list[str], environ: Mapping[str, str]) -> str | None:
    """What a program prints on either channel, or none if it fails."""
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
