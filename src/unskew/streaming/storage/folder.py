"""The one place that touches files of a checkpoint: whole files, by name, on any file system Arrow knows."""

from __future__ import annotations

import contextlib
import posixpath
import re
from uuid import uuid4

from pyarrow import fs


class Folder:
    """A folder whose files are written whole or not at all.

    A file is written under a temporary name and then renamed, so a reader never sees half of one, whoever dies
    when. Tested on local disks; other file systems (`hdfs://`, `s3://`) are those of `pyarrow.fs`.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._fs, self._base = _opened(address)

    def __reduce__(self) -> tuple[type[Folder], tuple[str]]:
        return Folder, (self.address,)

    def read(self, name: str) -> bytes:
        """The content; FileNotFoundError where there is none."""
        with self._fs.open_input_stream(self._path(name)) as stream:
            return bytes(stream.read())

    def find(self, name: str) -> bytes | None:
        """The content, or None."""
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Write a file; the last writer wins."""
        path = self._path(name)
        parent = posixpath.dirname(path)
        aside = posixpath.join(parent, f".{uuid4().hex}.tmp")
        try:
            try:
                stream = self._fs.open_output_stream(aside)
            except FileNotFoundError:
                self._fs.create_dir(parent, recursive=True)
                stream = self._fs.open_output_stream(aside)
            with stream:
                stream.write(data)
            self._fs.move(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self._fs.delete_file(aside)
            raise

    def names(self, folder: str) -> list[str]:
        """The names of the files and folders in a folder, sorted; none where there is no such folder."""
        found = self._fs.get_file_info(fs.FileSelector(self._path(folder), allow_not_found=True))
        return sorted(info.base_name for info in found if not info.base_name.startswith("."))

    def delete(self, name: str) -> None:
        """Delete a file or a folder with all that is in it; nothing happens where there is none."""
        path = self._path(name)
        with contextlib.suppress(FileNotFoundError):
            if self._fs.get_file_info(path).type == fs.FileType.Directory:
                self._fs.delete_dir(path)
            else:
                self._fs.delete_file(path)

    def _path(self, name: str) -> str:
        return posixpath.join(self._base, name)


def absolute(address: str) -> str:
    """The address as every process understands it, whatever folder it was started in."""
    scheme, colon, _ = address.partition("/")[0].partition(":")
    if not colon:
        return posixpath.abspath(address)
    if scheme != "file" and "://" not in address:
        raise ValueError(f"checkpoint {address!r} names no host: write {scheme}://host/path, or a plain path")
    return address


def _opened(address: str) -> tuple[fs.FileSystem, str]:
    if address.startswith("file:"):
        return fs.LocalFileSystem(), "/" + address.removeprefix("file:").lstrip("/")
    if "://" in address:
        # Hadoop has more names for it
        plain = re.sub(r"^s3[an]://", "s3://", address)
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(plain)
        return found
    return fs.LocalFileSystem(), address
