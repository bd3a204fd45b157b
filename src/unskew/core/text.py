"""Text from the data, such as keys, made safe and short enough to print.

A key may hold control characters, terminal sequences, markup, right-to-left text, or a megabyte. These functions
return one line of printable characters; escaping it for HTML or for a terminal's markup is left to the caller.
"""

from __future__ import annotations

import math
from typing import Any

LONGEST = 48
"""Characters of a key that are printed: enough to tell most keys apart, and a table still fits on a screen."""


def inert(text: str) -> str:
    r"""The text on one line, with everything that is not a printable character written as an escape.

    >>> print(inert("a\nb\x1b[31m\u202e"))
    a\nb\x1b[31m\u202e
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "attempt"), counted(2000, "attempt")
    ('1 attempt', '2,000 attempts')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


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
        text = inert(key[: longest + 1])
        return f'"{text}"' if _needs_quotes(key) else text
    return inert(str(key))


def _needs_quotes(text: str) -> bool:
    """Whether the text could be mistaken for nothing, for null, or for a value of another type."""
    return text != text.strip() or text in ("", "null", "true", "false")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
