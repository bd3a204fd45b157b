"""Tables of a job file as frozen dataclasses. An error names the table and the setting, and suggests what was meant.

Each field of such a dataclass has a reader: a function that turns a TOML value into the field's value, or says
what to write instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from dataclasses import field as dataclass_field
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")
Mode: TypeAlias = Literal["batch", "stream"]


@dataclass(frozen=True)
class Location:
    """Where in the job file a value is, so that an error can name it."""

    table: str
    setting: str
    mode: Mode

    def error(self, message: str) -> ValueError:
        """The message with the location in front."""
        return ValueError(f"{self}: {message}")

    @property
    def path(self) -> str:
        """The dotted name of this setting: the name of its table, if its value is one."""
        return f"{self.table}.{self.setting}" if self.table else self.setting

    def child(self, name: str) -> Location:
        """The setting `name` of the table that is this setting's value."""
        return Location(self.path, name, self.mode)

    def __str__(self) -> str:
        return setting_label(self.table, self.setting)


def setting_label(table: str, name: str) -> str:
    """A setting as messages name it.

    >>> setting_label("source", "path"), setting_label("", "mode")
    ('[source] path', 'mode')
    """
    return f"[{table}] {name}" if table else name


Reader: TypeAlias = Callable[[Any, Location], Any]


def setting(read: Reader, default: Any = MISSING, *, only: Mode | None = None) -> Any:
    """A field of a table; required if it has no default, and refused in jobs of another mode than `only`."""
    metadata = {"read": read, "only": only}
    if isinstance(default, dict):
        return dataclass_field(default_factory=default.copy, metadata=metadata)
    return dataclass_field(default=default, metadata=metadata)


def read_table(cls: type[T], values: Mapping[str, Any], table: str, mode: Mode) -> T:
    """The table as a `cls`."""
    settings = settings_of(cls)
    check_names(values, settings, table)
    arguments = {
        name: _read_setting(settings[name], value, Location(table, name, mode))
        for name, value in values.items()
    }
    return _construct(cls, arguments, table)


def settings_of(cls: type) -> dict[str, Field[Any]]:
    """The fields that a job file may set, by name."""
    return {field.name: field for field in fields(cls) if "read" in field.metadata}


def check_names(names: Iterable[str], allowed: Iterable[str], table: str) -> None:
    """Refuse a setting that the table does not have, and suggest the closest one that it has."""
    allowed = list(allowed)
    for name in names:
        if name not in allowed:
            owner = f"[{table}]" if table else "a job"
            raise ValueError(
                f"{setting_label(table, name)}: there is no such setting: {did_you_mean(name, allowed)}"
                f"{owner} takes {', '.join(allowed)}"
            )


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """The hint for a misspelt name; empty if no candidate is close.

    >>> did_you_mean("jsn", ["csv", "json"])
    "did you mean 'json'? "
    """
    close = difflib.get_close_matches(name, list(candidates), 1)
    return f"did you mean {close[0]!r}? " if close else ""


def check_address(settings: Any, names: Iterable[str], needed: Iterable[str], owner: str) -> None:
    """Of the settings `names`, which say where data is, `owner` takes those that are `needed` and no other."""
    needed = tuple(needed)
    for name in names:
        is_set = getattr(settings, name) is not None
        if is_set and name not in needed:
            raise ValueError(f"{name}: {owner} does not take this setting: leave it out")
        if not is_set and name in needed:
            raise ValueError(f"{name}: this setting is missing, and {owner} needs it")


def _read_setting(field: Field[Any], value: Any, location: Location) -> Any:
    only = field.metadata["only"]
    if only not in (None, location.mode):
        raise location.error(f"this is for mode = {only!r} only: leave it out")
    return field.metadata["read"](value, location)


def _construct(cls: type[T], arguments: Mapping[str, Any], table: str) -> T:
    for field in fields(cls):  # type: ignore[arg-type]
        required = field.default is MISSING and field.default_factory is MISSING
        if required and field.name not in arguments:
            raise ValueError(
                f"{setting_label(table, field.name)}: this setting is missing, and a job needs it"
            )
    try:
        return cls(**arguments)
    except ValueError as error:
        raise ValueError(f"[{table}] {error}" if table else str(error)) from error


def text(value: Any, location: Location) -> str:
    """Text that is not empty."""
    if not isinstance(value, str) or not value:
        raise location.error(f"write text in quotes, not {value!r}")
    return value


def names(value: Any, location: Location) -> tuple[str, ...]:
    """A name or a list of names."""
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(name, str) and name for name in listed):
        raise location.error(f"write a name in quotes or a list of names, not {value!r}")
    return tuple(listed)


def positive_int(value: Any, location: Location) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise location.error(f"write a whole number of at least 1, not {value!r}")
    return value


def number(value: Any, location: Location) -> int | float:
    """A number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise location.error(f"write a number, not {value!r}")
    return value


def boolean(value: Any, location: Location) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise location.error(f"write true or false, without quotes, not {value!r}")
    return value


def function_name(value: Any, location: Location) -> str:
    """A function by its name, `module:function`; it is imported later."""
    if not isinstance(value, str) or not re.fullmatch(r"[\w.]+:[\w.]+", value):
        raise location.error(f"write 'module:function', not {value!r}")
    return value


def one_of(*choices: str) -> Reader:
    """One of these names."""

    def read(value: Any, location: Location) -> str:
        if value not in choices:
            hint = did_you_mean(str(value), choices)
            raise location.error(f"there is no {value!r}: {hint}choose one of {', '.join(choices)}")
        return str(value)

    return read


def table(value: Any, location: Location) -> dict[str, Any]:
    """A table with any content."""
    if not isinstance(value, dict):
        raise location.error(f"write a table, [{location.path}], not {value!r}")
    return value


def plain_values(value: Any, location: Location) -> dict[str, str | int | float | bool]:
    """A table with any names, whose values are text, numbers, true or false."""
    for name, item in table(value, location).items():
        if not isinstance(item, str | int | float):
            raise location.child(name).error(f"write text, a number, true or false, not {item!r}")
    return dict(value)


def table_of(cls: type[T]) -> Callable[[Any, Location], T]:
    """A table with the settings of `cls`."""

    def read(value: Any, location: Location) -> T:
        return read_table(cls, table(value, location), location.path, location.mode)

    return read


def tables_of(cls: type[T]) -> Callable[[Any, Location], tuple[T, ...]]:
    """A table with the settings of `cls`, or a list of such tables: `[[operator]]` in TOML."""

    def read(value: Any, location: Location) -> tuple[T, ...]:
        if not isinstance(value, list):
            return (table_of(cls)(value, location),)
        if not value:
            raise location.error(f"write at least one table, [[{location.path}]]")
        return tuple(
            read_table(cls, table(item, location), f"{location.path} {i}", location.mode)
            for i, item in enumerate(value, 1)
        )

    return read


def numbers_of(cls: type[T], *, besides: str | None = None) -> Callable[[Any, Location], T]:
    """A table of the numbers that `cls` takes and checks; `besides` names a setting of the table that `cls` lacks."""

    def read(value: Any, location: Location) -> T:
        values = table(value, location)
        allowed = [*([besides] if besides else []), *(field.name for field in fields(cls))]  # type: ignore[arg-type]
        check_names(values, allowed, location.path)
        numbers = {
            name: number(item, location.child(name)) for name, item in values.items() if name != besides
        }
        return _construct(cls, numbers, location.path)

    return read
