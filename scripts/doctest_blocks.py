"""For mkdocstrings: turn doctests into code blocks, since Markdown would read their `>>>` as quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.M)


class DoctestBlocks(griffe.Extension):
    """Puts a fence around every doctest."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put fences into the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    text = re.sub(r" *# doctest: \+\w+$", "", example[0], flags=re.M)
    return f"```pycon\n{text}\n```"
