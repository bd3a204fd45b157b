"""Where a saved file lies: a plain path, or an address of any file system that Arrow or Spark reaches.

| address | goes through |
|---|---|
| a plain path, `file:/x`, `file:///x` | Python: a temporary file, synced and renamed (`files.write`) |
| `dbfs:/x` | the path `/dbfs/x` (`/Volumes/x` for `dbfs:/Volumes/x`) where it is mounted, else Spark |
| `s3://`, `s3a://`, `s3n://`, `gs://`, `abfs://`, `abfss://`, `hdfs://`, … | `pyarrow.fs`, else Spark |
| anything else | the active Spark session (`spark/address_files.py`) |

A scheme goes to Spark if Arrow does not know it, was built without it, or cannot reach it (no credentials, no libhdfs).
A missing file is always a FileNotFoundError. What cannot be reached, read or written is a ValueError of one line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from uuid import uuid4

from pyarrow import fs

from unskew.core import files

Address: TypeAlias = str | Path

# One letter before a colon is a drive of Windows.
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")

_CALLERS_MISTAKE = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG, errno.EINVAL}
)


def read(address: Address, session: Any = None) -> bytes:
    """The content of the file; `session` is what Spark reads it with if it has to (default: the active one)."""
    path = local_path(address)
    if path is not None:
        return _read_local(path)
    arrow_error: Exception | None = None
    try:
        file_system, name = open_arrow(str(address))
        if file_system.get_file_info(name).type == fs.FileType.Directory:
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        with file_system.open_input_stream(name) as stream:
            return bytes(stream.read())
    except FileNotFoundError as error:
        refuse_missing(address, error)
    except (OSError, ValueError, NotImplementedError) as error:
        arrow_error = error
    spark = _spark(address, session, arrow_error)
    with _saying_both(arrow_error):
        return bytes(spark.read(str(address), session))


def write(address: Address, data: bytes, session: Any = None) -> None:
    """Write the whole file or nothing; the last writer wins."""
    path = local_path(address)
    if path is not None:
        _write_local(path, data)
        return
    arrow_error: Exception | None = None
    try:
        file_system, name = open_arrow(str(address))
        _write_arrow(file_system, name, data)
    except (OSError, ValueError, NotImplementedError) as error:
        arrow_error = error
    if arrow_error is not None:
        spark = _spark(address, session, arrow_error)
        with _saying_both(arrow_error):
            spark.write(str(address), data, session)


def update(address: Address, change: Callable[[bytes | None], bytes | None], session: Any = None) -> None:
    """Replace the file by what `change` makes of it (None: there is no file; leave it as it is).

    On a local file system, updates of one folder wait for each other, in all processes, so none is lost. Elsewhere the
    last writer wins; a file is still replaced as a whole.
    """
    path = local_path(address)
    with _locked(path.parent) if path is not None else contextlib.nullcontext():
        try:
            before = read(address, session)
        except FileNotFoundError:
            before = None
        after = change(before)
        if after is not None:
            write(address, after, session)


def check_writable(address: Address) -> None:
    """Refuse a local address that cannot be written to; of others this is known only when they are written."""
    path = local_path(address)
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path}: it is a folder: add the name of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}: create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ValueError(f"{path}: no permission to write to {path.parent}: choose another address")


def local_path(address: Address) -> Path | None:
    """The path of a local file, or None if the address is one of another file system."""
    text = str(address)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(address)
    if isinstance(address, Path) and scheme[1].lower() not in ("file", "dbfs"):
        raise ValueError(f"{text}: an address as a Path has lost a slash: pass it as text")
    rest = "/" + text[scheme.end() :].lstrip("/")
    if scheme[1].lower() == "file":
        return Path(rest)
    if scheme[1].lower() == "dbfs":
        mount = Path("/") if rest.startswith("/Volumes/") else Path("/dbfs")
        if Path("/Volumes" if mount == Path("/") else mount).is_dir():
            return mount / rest.lstrip("/")
    return None


def open_arrow(address: str) -> tuple[fs.FileSystem, str]:
    """Arrow's file system of an address, and the path in it."""
    if address.startswith("file:"):
        return fs.LocalFileSystem(), "/" + address.removeprefix("file:").lstrip("/")
    if "://" in address:
        # Hadoop has several names for S3, Arrow only one
        file_system, path = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", address))
        return file_system, path
    return fs.LocalFileSystem(), address


def one_line(error: BaseException) -> str:
    """The first line of an error, or its kind if it has no text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def refuse_missing(address: Address, error: Exception | None = None) -> NoReturn:
    """Say that there is no such file."""
    raise FileNotFoundError(
        f"{address}: there is no such file: check the address, or save the file first"
    ) from error


def _read_local(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        refuse_missing(path, error)
    except OSError as error:
        if error.errno not in _CALLERS_MISTAKE:
            raise
        raise ValueError(f"{path}: cannot be read ({error.strerror}): check the address") from error


def _write_local(path: Path, data: bytes) -> None:
    try:
        files.write(path, data)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}: create it first") from error
    except OSError as error:
        if error.errno not in _CALLERS_MISTAKE:
            raise
        raise ValueError(f"{path}: cannot be written ({error.strerror}): choose another address") from error


def _write_arrow(file_system: fs.FileSystem, path: str, data: bytes) -> None:
    """Under a temporary name, then renamed: closing a stream after an error would complete half a file."""
    parent = posixpath.dirname(path)
    temporary = posixpath.join(parent, f".unskew-{uuid4().hex}")
    try:
        try:
            stream = file_system.open_output_stream(temporary)
        except FileNotFoundError:
            file_system.create_dir(parent, recursive=True)
            stream = file_system.open_output_stream(temporary)
        with stream:
            stream.write(data)
        file_system.move(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            file_system.delete_file(temporary)
        raise


def _spark(address: Address, session: Any, arrow_error: Exception) -> Any:
    """The module that reads and writes through Spark, or a ValueError if no session is active.

    The core imports it only here, where Arrow cannot help.
    """
    try:
        from unskew.spark import address_files
    except ModuleNotFoundError:
        active = False
    else:
        active = address_files.is_active(session)
    if not active:
        raise ValueError(
            f"{address}: Arrow cannot reach it ({one_line(arrow_error)}), and no Spark session is active: check the "
            "address, give Arrow its credentials, or start Spark first"
        ) from arrow_error
    return address_files


@contextlib.contextmanager
def _saying_both(arrow_error: Exception) -> Iterator[None]:
    """Where Spark fails, too, the reason may be the one that Arrow gave."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}; Arrow says: {one_line(arrow_error)}") from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One at a time in this folder, where the system can lock a folder."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield  # reading or writing the file says what is wrong
        return
    try:
        # a network file system may refuse
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
