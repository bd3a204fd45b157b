"""The files of an event log and the lines in them, compressed or not.

Spark writes one file per application, or a folder `eventlog_v2_…` of files `events_1_…`, `events_2_…`. While the
application runs, the name ends in `.inprogress`. The content says how a file is compressed, not its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

_READABLE = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}
_UNREADABLE = {b"LZ4Block": "lz4", b"\x82SNAPPY\x00": "snappy", b"ZV": "lzf"}
_CHUNK = 1 << 16
"""Bytes read at once; a truncated file may lose this much at its end."""

_PART = re.compile(r"events_(\d+)_.*?(\.compact)?")


def log_files(path: str | Path) -> list[Path]:
    """The files of the log at `path`, in the order in which they were written."""
    target = Path(path)
    if "://" in str(path):
        raise ValueError(f"{path}: only local files can be read: copy the log to this machine first")
    if not target.exists():
        raise ValueError(f"{path}: there is no such file or folder: check the path")
    if not target.is_dir():
        return [target]
    parts = sorted((*_order(part), part) for part in target.iterdir() if _PART.fullmatch(part.name))
    if not parts:
        raise ValueError(f"{path}: {_not_a_log(target)}")
    # a compacted file stands for everything before it, the file of its own number included
    last = max((at for at, (_, compacted, _) in enumerate(parts) if compacted), default=0)
    return [part for *_, part in parts[last:]]


def lines(path: Path) -> Iterator[bytes]:
    """The lines of one file; if it is still being written, or truncated, those that can be read."""
    with closing(_open(path)) as stream:
        rest = b""
        while chunk := _read(stream):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
    if rest:
        yield rest


def _order(part: Path) -> tuple[int, bool]:
    match = _PART.fullmatch(part.name)
    assert match is not None  # log_files passes no other files
    return int(match[1]), match[2] is not None


def _open(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        start = file.read(8)
    for magic, codec in _UNREADABLE.items():
        if start.startswith(magic):
            raise ValueError(
                f"{path}: compressed with {codec}, which unskew cannot read: let Spark write zstd "
                "(spark.eventLog.compression.codec=zstd) or no compression (spark.eventLog.compress=false)"
            )
    for magic, codec in _READABLE.items():
        if start.startswith(magic):
            stream: BinaryIO = pa.CompressedInputStream(pa.OSFile(str(path)), codec)
            return stream
    return path.open("rb")


def _read(stream: BinaryIO) -> bytes:
    try:
        return stream.read(_CHUNK)
    except OSError as error:
        if "Truncated" in str(error):  # pyarrow has no exception class for this
            return b""
        raise


def _not_a_log(folder: Path) -> str:
    logs = sorted(
        (file for file in folder.iterdir() if not file.name.startswith(".")),
        key=lambda file: file.stat().st_mtime,
        reverse=True,
    )
    if not logs:
        return "an empty folder"
    return f"a folder of {len(logs)} logs or other files: name one of them, such as {logs[0].name}"
