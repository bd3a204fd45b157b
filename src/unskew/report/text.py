"""Keys as text that is safe and short enough to show.

A key is whatever was in the data: it may hold control characters, terminal sequences, markup, text that runs
backwards, or a megabyte. What comes out of here is one line of printable characters; escaping it for HTML or
for a terminal's markup is left to whoever prints it.
"""

from __future__ import annotations

import math
from typing import Any

LONGEST = 48
"""Characters of a key that are shown: enough to tell most keys apart, and a table still fits a screen."""


def inert(text: str) -> str:
    r"""The text on one line, with everything that is not a printable character written as an escape.

    >>> print(inert("a\nb\x1b[31m\u202e"))
    a\nb\x1b[31m\u202e
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def key_label(key: Any, longest: int = LONGEST) -> str:
    r"""A key as short, inert text: null without quotes, text with quotes only where they are needed.

    >>> [key_label(key) for key in ("ORD", None, "null", "", ("UA", "ORD"), True, b"\x00a")]
    ['ORD', 'null', '"null"', '""', '(UA, ORD)', 'true', '0x0061']
    >>> key_label("x" * 100, longest=8)
    'xxxxxxx…'
    """
    return _cut(_text(key, longest), longest)


def _text(key: Any, longest: int) -> str:
    if isinstance(key, tuple):
        each = max(8, (longest - 2) // max(len(key), 1) - 2)
        return "(" + ", ".join(_cut(_text(part, each), each) for part in key) + ")"
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, bytes):
        return "0x" + key[:longest].hex()
    if isinstance(key, float) and not math.isfinite(key):
        return str(key)
    if isinstance(key, str):
        shown = inert(key[: longest + 1])
        return f'"{shown}"' if _needs_quotes(key) else shown
    return inert(str(key))


def _needs_quotes(text: str) -> bool:
    """Text that could be taken for nothing, for null, or for a number or truth value of another type."""
    return text != text.strip() or text in ("", "null", "true", "false")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
