"""Tables of a job file as frozen dataclasses: every mistake is told with its table and setting, and what was meant.

A field of such a dataclass carries a reader: a function that turns what TOML has into the field's value, or says
what it should have been.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")
Mode: TypeAlias = Literal["batch", "stream"]


@dataclass(frozen=True)
class Place:
    """Where in the file a value is, for the one who has to mend it."""

    table: str
    setting: str
    mode: Mode

    def wrong(self, why: str) -> ValueError:
        """The error that says so."""
        return ValueError(f"{self}: {why}")

    @property
    def inside(self) -> str:
        """The name of the table that is this setting's value."""
        return f"{self.table}.{self.setting}" if self.table else self.setting

    def within(self, name: str) -> Place:
        """A setting of that table."""
        return Place(self.inside, name, self.mode)

    def __str__(self) -> str:
        return at(self.table, self.setting)


def at(table: str, name: str) -> str:
    """How a setting is named in messages."""
    return f"[{table}] {name}" if table else name


Reader: TypeAlias = Callable[[Any, Place], Any]


def setting(read: Reader, default: Any = MISSING, *, only: Mode | None = None) -> Any:
    """A field of a table; without a default it must be given, and with `only` for jobs of that mode."""
    about = {"read": read, "only": only}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=about)
    return field(default=default, metadata=about)


def read_table(cls: type[T], values: Mapping[str, Any], table: str, mode: Mode) -> T:
    """The table as a `cls`."""
    known = settings_of(cls)
    check_names(values, known, table)
    given = {name: _read(known[name], value, Place(table, name, mode)) for name, value in values.items()}
    return _made(cls, given, table)


def settings_of(cls: type) -> dict[str, Field[Any]]:
    """The fields that a job file may set."""
    return {one.name: one for one in fields(cls) if "read" in one.metadata}


def check_names(given: Iterable[str], known: Iterable[str], table: str) -> None:
    """Refuse a setting that the table does not have, with the nearest one that it has."""
    names = list(known)
    for name in given:
        if name not in names:
            where = f"[{table}]" if table else "a job"
            raise ValueError(
                f"{at(table, name)}: there is no such setting: {meant(name, names)}"
                f"{where} takes {', '.join(names)}"
            )


def meant(name: str, known: Iterable[str]) -> str:
    """The hint for a name that is nearly right; empty where nothing is near."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]!r}? " if close else ""


def _read(one: Field[Any], value: Any, place: Place) -> Any:
    only = one.metadata["only"]
    if only not in (None, place.mode):
        raise place.wrong(f"this is for mode = {only!r} only: leave it out")
    return one.metadata["read"](value, place)


def _made(cls: type[T], given: Mapping[str, Any], table: str) -> T:
    for one in fields(cls):  # type: ignore[arg-type]
        if one.name not in given and one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"{at(table, one.name)}: this setting is missing, and a job needs it")
    try:
        return cls(**given)
    except ValueError as error:
        raise ValueError(f"[{table}] {error}" if table else str(error)) from error


def text(value: Any, place: Place) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value:
        raise place.wrong(f"write text in quotes, not {value!r}")
    return value


def texts(value: Any, place: Place) -> tuple[str, ...]:
    """A text or a list of them."""
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(one, str) and one for one in listed):
        raise place.wrong(f"write a name in quotes or a list of names, not {value!r}")
    return tuple(listed)


def whole(value: Any, place: Place) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise place.wrong(f"write a whole number of at least 1, not {value!r}")
    return value


def number(value: Any, place: Place) -> int | float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.wrong(f"write a number, not {value!r}")
    return value


def flag(value: Any, place: Place) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise place.wrong(f"write true or false, without quotes, not {value!r}")
    return value


def function(value: Any, place: Place) -> str:
    """A function by its name, `module:function`; it is looked up later."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.]+:[\w.]+", value):
        raise place.wrong(f"write 'module:function', not {value!r}")
    return value


def one_of(*names: str) -> Reader:
    """One of these names."""

    def read(value: Any, place: Place) -> str:
        if value not in names:
            raise place.wrong(
                f"there is no {value!r}: {meant(str(value), names)}choose one of {', '.join(names)}"
            )
        return str(value)

    return read


def table(value: Any, place: Place) -> dict[str, Any]:
    """A table of anything."""
    if not isinstance(value, dict):
        raise place.wrong(f"write a table, [{place.inside}], not {value!r}")
    return value


def plain_values(value: Any, place: Place) -> dict[str, str | int | float | bool]:
    """A table of text, numbers, true and false, with any names."""
    for name, one in table(value, place).items():
        if not isinstance(one, str | int | float):
            raise place.within(name).wrong(f"write text, a number, true or false, not {one!r}")
    return dict(value)


def a(cls: type[T]) -> Callable[[Any, Place], T]:
    """A table with the settings of `cls`."""

    def read(value: Any, place: Place) -> T:
        return read_table(cls, table(value, place), place.inside, place.mode)

    return read


def one_or_more(cls: type[T]) -> Callable[[Any, Place], tuple[T, ...]]:
    """A table with the settings of `cls`, or several in a row: `[[operator]]` in TOML."""

    def read(value: Any, place: Place) -> tuple[T, ...]:
        if not isinstance(value, list):
            return (a(cls)(value, place),)
        if not value:
            raise place.wrong(f"write at least one table, [[{place.inside}]]")
        return tuple(
            read_table(cls, table(one, place), f"{place.inside} {i}", place.mode)
            for i, one in enumerate(value, 1)
        )

    return read


def figures(cls: type[T], beside: str | None = None) -> Callable[[Any, Place], T]:
    """A table of numbers that `cls` takes, and checks; `beside` is a setting of the table that it does not know."""

    def read(value: Any, place: Place) -> T:
        given = table(value, place)
        known = [*([beside] if beside else []), *(one.name for one in fields(cls))]  # type: ignore[arg-type]
        check_names(given, known, place.inside)
        numbers = {name: number(one, place.within(name)) for name, one in given.items() if name != beside}
        return _made(cls, numbers, place.inside)

    return read
