"""The one place that touches files of a checkpoint: whole files, by name, on any file system that Arrow supports."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
from uuid import uuid4

from pyarrow import fs

from unskew.core.addresses import open_arrow

_NO_LINKS = frozenset(
    {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
)
"""How a local file system refuses hard links: FUSE mounts, exFAT, some network shares."""


class Folder:
    """A folder whose files are written whole or not at all.

    A file is written under a temporary name and then renamed, so a reader never sees half a file, no matter which
    process dies when. A `durable` file is also flushed to disk before it gets its name, so it survives a power
    failure; that costs a millisecond or two, and files that a replayed batch rewrites do not need it. Tested on local
    disks; other file systems (`hdfs://`, `s3://`) are those of `pyarrow.fs`, and as durable as their writes are.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._fs, self._base = open_arrow(address)
        self._is_local = isinstance(self._fs, fs.LocalFileSystem)

    def __reduce__(self) -> tuple[type[Folder], tuple[str]]:
        return Folder, (self.address,)

    def read(self, name: str) -> bytes:
        """The content; FileNotFoundError if the file does not exist."""
        with self._fs.open_input_stream(self._path(name)) as stream:
            return bytes(stream.read())

    def find(self, name: str) -> bytes | None:
        """The content, or None."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write a file; the last writer wins."""
        path = self._path(name)
        temporary = self._write_aside(path, data, durable)
        try:
            self._fs.move(temporary, path)
        except BaseException:
            self._discard(temporary)
            raise
        if durable:
            self._flush_folder(path)

    def create(self, name: str, data: bytes) -> bool:
        """Write a durable file unless it exists: the first writer wins, and everyone else gets False.

        Atomic on a local disk, where a hard link cannot take an existing name. Arrow has no such operation for
        other file systems, and some local ones have no hard links: there, the check and the rename are two steps, and
        the lease of the checkpoint keeps a second driver away.
        """
        path = self._path(name)
        temporary = self._write_aside(path, data, durable=True)
        try:
            if not self._link(temporary, path):
                if self._fs.get_file_info(path).type != fs.FileType.NotFound:
                    return False
                self._fs.move(temporary, path)
        except FileExistsError:
            return False
        finally:
            self._discard(temporary)
        self._flush_folder(path)
        return True

    def _link(self, temporary: str, path: str) -> bool:
        """Give the file its name, or raise FileExistsError; False where there are no hard links."""
        if not self._is_local:
            return False
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return False
        return True

    def names(self, folder: str) -> list[str]:
        """The names of the files and folders in a folder, sorted; empty if the folder does not exist."""
        return sorted(self.times(folder))

    def times(self, folder: str) -> dict[str, int | None]:
        """When the files and folders in a folder were last written, in nanoseconds, where the file system knows."""
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        while True:
            try:
                entries = self._fs.get_file_info(selector)
                break
            except FileNotFoundError:
                # Arrow did not find the folder, looked again to be sure, and now it is there: another process made it.
                continue
        return {entry.base_name: entry.mtime_ns for entry in entries if not entry.base_name.startswith(".")}

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with everything in it; nothing happens if it does not exist."""
        path = self._path(name)
        with contextlib.suppress(FileNotFoundError):
            if self._fs.get_file_info(path).type == fs.FileType.Directory:
                self._fs.delete_dir(path)
            else:
                self._fs.delete_file(path)

    def _write_aside(self, path: str, data: bytes, durable: bool) -> str:
        """The data under a temporary name beside `path`."""
        parent = posixpath.dirname(path)
        temporary = posixpath.join(parent, f".{uuid4().hex}.tmp")
        try:
            try:
                stream = self._fs.open_output_stream(temporary)
            except FileNotFoundError:
                self._fs.create_dir(parent, recursive=True)
                if durable:
                    self._flush_folder(parent)
                stream = self._fs.open_output_stream(temporary)
            with stream:
                stream.write(data)
            if durable and self._is_local:
                _flush(temporary)
        except BaseException:
            self._discard(temporary)
            raise
        return temporary

    def _discard(self, temporary: str) -> None:
        with contextlib.suppress(OSError):
            self._fs.delete_file(temporary)

    def _flush_folder(self, path: str) -> None:
        """Make the new name durable too; file systems that refuse to flush a folder do not need it."""
        if self._is_local:
            try:
                _flush(posixpath.dirname(path))
            except OSError as error:
                if error.errno == errno.EIO:
                    raise

    def _path(self, name: str) -> str:
        return posixpath.join(self._base, name)


def absolute(address: str) -> str:
    """The address as every process understands it, in whichever folder the process was started."""
    scheme, colon, _ = address.partition("/")[0].partition(":")
    if not colon:
        return posixpath.abspath(address)
    if scheme != "file" and "://" not in address:
        raise ValueError(f"checkpoint {address!r} has no host: write {scheme}://host/path, or a plain path")
    return address


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
