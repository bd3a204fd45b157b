"""A DataFrame from a file or folder that a command line names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format: TypeAlias = Literal["parquet", "csv", "json"]

_BY_EXTENSION: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_PACKED = frozenset({".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate"})
_GLOB = re.compile(r"([\[\]{}*?\\])")


def read(spark: SparkSession, path: str, form: Format | None = None) -> DataFrame:
    """The file or folder as a DataFrame; CSV with a header and inferred types, JSON with one object per line."""
    chosen = form or guess_format(path)
    options: dict[str, Any] = {}
    if chosen == "csv":
        options = {"header": True, "inferSchema": True}
        if _extension(Path(path)) == ".tsv":
            options["sep"] = "\t"
    df = spark.read.format(chosen).options(**options).load(_literal(path))
    if not df.columns:
        raise ValueError(
            f"{path}: there are no columns: the {chosen} data is empty; name data that has records"
        )
    if df.columns == ["_corrupt_record"]:
        raise ValueError(f"{path}: not JSON with one object per line: convert it, or name another --format")
    return df


def check_path(path: str) -> None:
    """Refuse a local path that does not exist; patterns and other file systems are left to Spark."""
    if not _is_elsewhere(path) and not Path(path).exists() and not _GLOB.search(path):
        raise ValueError(f"{path}: there is no such file or folder: check the path")


def guess_format(path: str) -> Format:
    """The format by the extension of the file, or of the files in a folder; Parquet if they cannot be listed."""
    local = Path(path)
    by_extension = _BY_EXTENSION.get(_extension(local))
    if by_extension is not None:
        return by_extension
    if _is_elsewhere(path) or not local.is_dir():
        if _is_elsewhere(path) or _GLOB.search(path):
            return "parquet"
        raise ValueError(
            f"{path}: the extension does not tell the format: give --format parquet, csv or json"
        )
    formats = {
        _BY_EXTENSION[extension]
        for file in local.rglob("*")
        if not any(part.startswith(("_", ".")) for part in file.relative_to(local).parts)
        and (extension := _extension(file)) in _BY_EXTENSION
    }
    if len(formats) == 1:
        return formats.pop()
    content = "files of several formats" if formats else "no Parquet, CSV or JSON files"
    raise ValueError(f"{path}: the folder holds {content}: give --format parquet, csv or json")


def _extension(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _is_elsewhere(path: str) -> bool:
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is not None


def _literal(path: str) -> str:
    """A local path as Spark needs it: absolute, and with nothing in its name taken for a pattern."""
    if _is_elsewhere(path) or not Path(path).exists():
        return path
    return _GLOB.sub(r"\\\1", str(Path(path).absolute()))
