"""Text in TOML, which Python itself reads since 3.11."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def parsed(text: str) -> dict[str, Any]:
    """The tables of the text; what is no TOML is a ValueError.

    >>> parsed("mode = 'batch'")
    {'mode': 'batch'}
    """
    return dict(tomllib.loads(text))
