"""One checked file format for everything that is saved and read back.

A file that is truncated, altered, of another kind or written by a newer unskew is refused by name and never
half-read; a file that `write` returned from is on disk. A file is one line of JSON, then Arrow IPC streams, one per
table. The line names the kind of file, its format version, the length of every stream and a checksum over all of it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import xxhash

from unskew.core.hashing import HASH_NAME

Meta = dict[str, Any]

# What opening or syncing a folder raises where the system or the file system has no such operation.
_NO_FOLDER_SYNC = frozenset(
    {errno.EACCES, errno.EPERM, errno.EISDIR, errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
)


class UnreadableFileError(ValueError):
    """A file that cannot be trusted: the message says which file, what is wrong with it and what to do."""


def encode(
    kind: str,
    version: int,
    meta: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    compression: str | None = None,
) -> bytes:
    """The bytes of a checked file; `compression` is one of Arrow's, which every reader recognises."""
    streams = {name: to_ipc(table, compression) for name, table in tables.items()}
    header = {
        "unskew": kind,
        "format": version,
        "meta": dict(meta),
        "streams": [[name, len(data)] for name, data in streams.items()],
    }
    payload = b"".join(streams.values())
    header["checksum"] = _checksum(header, payload)
    return _line(header) + b"\n" + payload


def decode(data: bytes, kind: str, newest: int, name: str) -> tuple[Meta, dict[str, pa.Table]]:
    """Read back what `encode` wrote, or raise an `UnreadableFileError` that names the file as `name`."""
    line, newline, payload = data.partition(b"\n")
    header, intact = _read_header(line, name)
    claimed_kind, version = header["unskew"], header["format"]
    if claimed_kind != kind:
        raise UnreadableFileError(
            f"{name}: a {claimed_kind} of unskew where a {kind} is expected: name a {kind}"
        )
    if intact and isinstance(version, int) and version > newest:
        raise UnreadableFileError(
            f"{name}: {kind} format {version} is newer than this unskew reads ({newest}): upgrade unskew"
        )
    claimed = header.pop("checksum", None)
    if not intact or not newline or claimed != _checksum(header, payload):
        raise UnreadableFileError(f"{name}: damaged (checksum does not match): restore it or make it again")
    tables, at = {}, 0
    for stream, length in header["streams"]:
        tables[stream] = pa.ipc.open_stream(pa.py_buffer(payload[at : at + length])).read_all()
        at += length
    return header["meta"], tables


def kind_of(data: bytes, name: str) -> str:
    """The kind of file that the first line claims; nothing else is checked."""
    header, _ = _read_header(data.partition(b"\n")[0], name)
    return str(header["unskew"])


def encode_parts(kind: str, version: int, meta: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """The bytes of a checked file that holds the bytes of other files."""
    data = pa.array(list(parts.values()), pa.large_binary())
    return encode(kind, version, meta, {"parts": pa.table({"name": list(parts), "data": data})})


def decode_parts(data: bytes, kind: str, newest: int, name: str) -> tuple[Meta, dict[str, bytes]]:
    """Read back what `encode_parts` wrote."""
    meta, tables = decode(data, kind, newest, name)
    parts = tables["parts"]
    return meta, dict(zip(parts["name"].to_pylist(), parts["data"].to_pylist(), strict=True))


def plain(value: Any) -> Any:
    """The value if JSON can hold it, else its `repr`: a function cannot be saved, but it can be named."""
    value = value.item() if isinstance(value, np.generic) else value
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return repr(value)


def check_hash(meta: Meta, name: str) -> None:
    """Refuse a file whose keys were hashed in a different way than this unskew hashes them."""
    if meta["hash"] != HASH_NAME:
        raise UnreadableFileError(
            f"{name}: made with the hash {meta['hash']}, not {HASH_NAME}: make it again"
        )


def write(path: str | Path, data: bytes) -> None:
    """Write the whole file or nothing; when this returns, the file is on disk under its name.

    1. The data is written to a temporary name beside the file and synced, so the name never leads to half a file.
    2. The temporary file is renamed, which replaces an older file in one step.
    3. The folder is synced. Until then the new name is only in memory: after a power failure the old file, or none,
       would be there, although this had returned. A file system that cannot sync a folder does so in its own time.
    """
    target = Path(path)
    # Opened like any file, so that it has the usual permissions: what one user plans another one runs.
    temporary = target.with_name(f".unskew-{uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk, on file systems that can; a failing disk is an error."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def _read_header(line: bytes, name: str) -> tuple[Meta, bool]:
    """What the first line says, and whether it is written as `encode` writes it: else the file was altered."""
    try:
        header = json.loads(line)
        header["unskew"], header["format"]
        return header, _line(header) == line
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableFileError(f"{name}: not a file of unskew, or its first line is damaged") from error


def to_ipc(table: pa.Table, compression: str | None = None) -> bytes:
    """The rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _line(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True).encode()


def _checksum(header: Mapping[str, Any], payload: bytes) -> str:
    digest = xxhash.xxh3_128(_line(header))
    digest.update(payload)
    return digest.hexdigest()
