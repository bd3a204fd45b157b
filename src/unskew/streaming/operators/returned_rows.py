"""What a user's function returned, as Arrow: every column there and known, every value as it was returned."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

NameOfRow = Callable[[int], str]


class UpdateError(RuntimeError):
    """The user's function failed, or its result breaks the contract; the message names the key if possible."""


def row_number(row: int) -> str:
    """The name of a row whose key is unknown."""
    return f"row {row}"


def table_of_frame(
    frame: Any,
    schema: pa.Schema,
    what: str,
    key_columns: Sequence[str] = (),
    name_of: NameOfRow = row_number,
) -> pa.Table:
    """A DataFrame with exactly the columns of `schema`, in any order; `key_columns` may be there and are dropped."""
    if not isinstance(frame, pd.DataFrame):
        raise UpdateError(f"{what} must be a pandas DataFrame, not {type(frame).__name__}")
    columns = list(frame.columns)
    _check_names(columns, schema, f"{what} has", "column", key_columns)
    repeated = [name for name in columns if columns.count(name) > 1]
    if repeated:
        raise UpdateError(f"{what} has two columns {repeated[0]!r}: rename one")
    return pa.table([_frame_column(frame[f.name], f, what, name_of) for f in schema], schema=schema)


def table_of_dicts(
    rows: Sequence[Any], schema: pa.Schema, what: str, name_of: NameOfRow = row_number
) -> pa.Table:
    """Dicts with exactly the fields of `schema`; a field that is to be null is there, with None."""
    names = set(schema.names)
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise UpdateError(f"{what} must be dicts, not {type(row).__name__} ({name_of(i)})")
        if row.keys() != names:
            _check_names(list(row), schema, f"{name_of(i)}: {what} has", "field")
    columns = [_column([row[f.name] for row in rows], f, what, name_of) for f in schema]
    return pa.table(columns, schema=schema)


def _check_names(
    names: list[Any], schema: pa.Schema, who: str, word: str, ignored: Sequence[str] = ()
) -> None:
    expected = ", ".join(schema.names)
    missing = [name for name in schema.names if name not in names]
    if missing:
        there = ", ".join(map(str, names)) or "none"
        raise UpdateError(f"{who} no {word} {missing[0]!r}: it has {there}, and its schema {expected}")
    unknown = [name for name in names if name not in schema.names and name not in ignored]
    if unknown:
        raise UpdateError(f"{who} a {word} {unknown[0]!r} that its schema has not: {expected}")


def _frame_column(values: pd.Series[Any], f: pa.Field, what: str, name_of: NameOfRow) -> pa.Array:
    dtype, types = values.dtype, pd.api.types
    is_checked_by_arrow = (
        not types.is_object_dtype(dtype)
        and not pa.types.is_nested(f.type)
        # Arrow takes flags for numbers and numbers for flags, and numbers for moments and moments for numbers
        and types.is_bool_dtype(dtype) == pa.types.is_boolean(f.type)
        and types.is_datetime64_any_dtype(dtype) == pa.types.is_timestamp(f.type)
    )
    if not is_checked_by_arrow:
        return _column(values.tolist(), f, what, name_of)
    try:
        return pa.array(values, f.type, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return _column(values.tolist(), f, what, name_of)


def _column(values: list[Any], f: pa.Field, what: str, name_of: NameOfRow) -> pa.Array:
    """The values as Arrow. What pandas uses for a missing value is null, but NaN in a float column stays NaN."""
    if not _all_plain(values, f.type):
        for i, value in enumerate(values):
            if _misfit(value, f.type):
                raise UpdateError(_refusal(value, f, what, name_of(i)))
    try:
        return _array(values, f.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        for i, value in enumerate(values):
            try:
                _array([value], f.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                raise UpdateError(_refusal(value, f, what, name_of(i))) from error
        raise UpdateError(f"{what} does not fit its schema: field {f.name!r}: {error}") from error


def _refusal(value: Any, f: pa.Field, what: str, name: str) -> str:
    return f"{what} does not fit its schema: {name}, field {f.name!r} is {shortened(repr(value))}, not a {f.type}"


def _array(values: list[Any], t: pa.DataType) -> pa.Array:
    if pa.types.is_floating(t):
        return pa.array([None if value is pd.NA else value for value in values], t)
    if pa.types.is_integer(t):
        values = [int(v) if isinstance(v, float | np.floating) and not math.isnan(v) else v for v in values]
    return pa.array(values, t, from_pandas=True)


def _all_plain(values: Iterable[Any], t: pa.DataType) -> bool:
    """Whether a quick glance suffices: Arrow itself refuses what does not fit."""
    if pa.types.is_integer(t):
        return all(value is None or type(value) is int for value in values)
    return bool(pa.types.is_boolean(t) or pa.types.is_decimal(t) or pa.types.is_binary(t))


def _misfit(value: Any, t: pa.DataType) -> bool:
    """Whether Arrow would turn the value into another one without saying so."""
    if value is None or value is pd.NA or value is pd.NaT:
        return False
    if pa.types.is_struct(t):
        names = {f.name for f in t}
        return isinstance(value, dict) and (
            value.keys() != names or any(_misfit(value[f.name], f.type) for f in t)
        )
    if pa.types.is_map(t):
        pairs = value.items() if isinstance(value, dict) else value
        return any(_misfit(k, t.key_type) or _misfit(v, t.item_type) for k, v in pairs)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return not isinstance(value, str | bytes) and any(_misfit(item, t.value_type) for item in value)
    if pa.types.is_integer(t):
        return _is_no_integer(value)
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return isinstance(value, bytes)
    if pa.types.is_floating(t):
        return isinstance(value, bool | np.bool_)
    if pa.types.is_date(t):
        if isinstance(value, dt.datetime):
            return value.time() != dt.time(0)
        return not isinstance(value, dt.date | np.datetime64)
    if pa.types.is_timestamp(t):
        return not isinstance(value, dt.date | np.datetime64)
    return False


def _is_no_integer(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return not math.isnan(value) and (math.isinf(value) or value != int(value))
    return isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer)


def shortened(text: str) -> str:
    """A value in an error."""
    return text if len(text) <= 200 else text[:200] + "…"
