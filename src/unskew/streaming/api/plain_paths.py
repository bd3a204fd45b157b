"""Paths that Spark's reader of state stores can read: it fails on any character that a URI would escape."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from unskew.core.addresses import local_path

_PLAIN = re.compile(r"[A-Za-z0-9/._~:@!$&'()*+,;=-]*")


def is_plain(address: str) -> bool:
    """Whether the address is the same text as a URI.

    >>> is_plain("/data/clicks"), is_plain("/data/my clicks"), is_plain("/data/100%")
    (True, False, False)
    """
    return _PLAIN.fullmatch(address) is not None


@contextlib.contextmanager
def plain_path(address: str) -> Iterator[str]:
    """Another path of the checkpoint that is plain: a link, deleted at the end.

    The link is made in the nearest folder above the checkpoint that has a plain path, so that executors on other
    machines, which have mounted the same folder, follow it as well; if that is read-only, in the temporary folder.
    """
    path = local_path(address)
    if path is None:
        raise ValueError(
            f"{address}: Spark cannot read the state of a checkpoint whose address has a space or one of %, #, ?: "
            "copy it to another address"
        )
    nearest = next(folder for folder in path.parents if is_plain(str(folder)))
    folder = nearest if os.access(nearest, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    link = folder / f".unskew-{uuid.uuid4().hex}"
    link.symlink_to(path)
    try:
        yield str(link)
    finally:
        link.unlink()
