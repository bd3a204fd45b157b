"""Enumerations whose members are texts, on every supported Python."""

from __future__ import annotations

from enum import Enum


class TextEnum(str, Enum):
    """As `enum.StrEnum`, which Python has since 3.11: a member is its text, also when printed.

    >>> class Colour(TextEnum):
    ...     RED = "red"
    >>> f"{Colour.RED}", str(Colour.RED), Colour.RED == "red"
    ('red', 'red', True)
    """

    __str__ = str.__str__

    def __format__(self, format_spec: str) -> str:
        return str.__format__(self, format_spec)
