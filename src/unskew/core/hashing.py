"""The 64-bit hash of a key, equal to Spark's `xxhash64` for every supported key type.

A key is hashed as Spark hashes the column that holds it: XXH64 with seed 42 over the value's bytes. A null leaves
the seed as it is, and the columns of a composite key are chained, each hash being the seed of the next. So
("a", null) and (null, "a") have the same hash, and are one entry wherever keys are identified by hash. Spark hashes
-0.0 as 0.0, and all NaNs alike, as its grouping does. `tests/core/golden` has hashes that a real Spark computed.

The whole array is hashed at once in numpy. Only strings and binaries longer than `LONG_VALUE` bytes go through the
`xxhash` package one by one, since vectorised rounds are wasted on a few long rows.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Hashes: TypeAlias = NDArray[np.int64]
Keys: TypeAlias = "pa.Array | pa.ChunkedArray | pd.Series[Any] | NDArray[Any] | Sequence[Any]"

SEED = 42
"""The seed that Spark's `xxhash64` starts from."""

HASH_NAME = "xxhash64"
"""Written into every file that depends on the hash, so that a change of hash is noticed."""

LONG_VALUE = 512
"""Bytes beyond which a value is hashed on its own instead of in the vectorised rounds."""

# Rows hashed at a time: the working arrays of one chunk stay in the CPU's cache.
_CHUNK = 1 << 16

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

_SHORT = reprlib.Repr()

_U64: TypeAlias = NDArray[np.uint64]
_Bytes: TypeAlias = NDArray[np.uint8]
_Index: TypeAlias = NDArray[np.int64]


def hash_keys(keys: Keys, key_type: pa.DataType | None = None) -> Hashes:
    """Hash every key as Spark's `xxhash64` would.

    >>> hash_keys(["a", None, "spark"]).tolist()
    [-8582455328737087284, 42, -1960931134668248110]
    """
    array = as_keys(keys, key_type)
    hashed = np.full(len(array), SEED, dtype=np.uint64)
    for first in range(0, len(array), _CHUNK):
        rows = slice(first, first + _CHUNK)
        hashed[rows] = _chain(array[rows], hashed[rows])
    return hashed.view(np.int64)


def buckets_of(hashes: Hashes, buckets: int) -> NDArray[np.int64]:
    """The bucket of each hash: `pmod(hash, buckets)`, in 0..buckets-1."""
    if buckets & (buckets - 1) == 0:
        return hashes & np.int64(buckets - 1)
    return hashes % np.int64(buckets)


def as_keys(keys: Keys, key_type: pa.DataType | None = None) -> pa.Array:
    """The keys as one Arrow array of a supported type; a composite key is a struct.

    Tuples become a struct with one field per position. With `key_type`, values are converted to it or refused, and
    the columns of a composite key go by position. The null type stands for any type.

    NaN is a value, except in pandas, where it marks a missing value: there it becomes null, as it does in
    Spark's `createDataFrame`. Times without a zone are taken as UTC. Python decimals get the precision of
    the longest; pass `key_type` to hash them like a column of another precision.
    """
    target = None if key_type is None or pa.types.is_null(key_type) else supported_type(key_type)
    array = _to_arrow(keys, target)
    return _convert(array, supported_type(array.type) if target is None else target)


def supported_type(key_type: pa.DataType) -> pa.DataType:
    """The type in which keys of `key_type` are stored, or a ValueError that names the type and a remedy.

    >>> supported_type(pa.dictionary(pa.int32(), pa.string()))
    DataType(string)
    """
    t = key_type
    if pa.types.is_dictionary(t):
        return supported_type(t.value_type)
    if pa.types.is_struct(t):
        fields = [t.field(i) for i in range(t.num_fields)]
        if not fields:
            raise ValueError("a composite key needs at least one column")
        return pa.struct([pa.field(f.name, supported_type(f.type)) for f in fields])
    # by name: Arrow has views since 16
    if pa.types.is_large_string(t) or str(t) == "string_view":
        return pa.string()
    if pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t) or str(t) == "binary_view":
        return pa.binary()
    if pa.types.is_timestamp(t):
        # a zone only matters for display
        return pa.timestamp("us", None if t.tz is None else "UTC")
    if pa.types.is_date64(t):
        return pa.date32()
    if pa.types.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return pa.decimal128(t.precision, t.scale)
    plain = (
        pa.types.is_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_signed_integer(t)
        or pa.types.is_boolean(t)
        or pa.types.is_float32(t)
        or pa.types.is_float64(t)
        or pa.types.is_date32(t)
        or pa.types.is_null(t)
    )
    if plain:
        return t
    raise ValueError(
        f"unsupported key type {t}: use string, binary, signed integer, boolean, float, double, decimal "
        "(of a precision up to 38), date, timestamp or a composite of these; cast the key column first"
    )


def _to_arrow(keys: Keys, key_type: pa.DataType | None) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    if isinstance(keys, pa.Array):
        return keys
    if isinstance(keys, str | bytes | bytearray):
        raise ValueError(f"keys is a column of keys, not one key: write [{key_repr(keys)}]")
    if hasattr(keys, "columns"):
        raise ValueError("keys is one column, not a frame or table: make its key columns a struct or tuples")
    values = keys if hasattr(keys, "dtype") else list(keys)
    if str(getattr(keys, "dtype", "object")) == "object":
        first = next((value for value in values if value is not None), None)
        if isinstance(first, tuple) or (isinstance(first, dict) and key_type is not None):
            return _composite(list(values), key_type)
    try:
        # without the type: with one, Arrow truncates 1.5 to 1
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise ValueError(f"the keys are not values of one type, so cast them: {error}") from error


def _composite(rows: Sequence[Any], key_type: pa.DataType | None) -> pa.StructArray:
    """Tuples, or dicts of the fields of `key_type`, as a struct; None is a row of nulls, as in Spark."""
    if key_type is None:
        width = len(next(row for row in rows if row is not None))
        names, types = [f"_{i + 1}" for i in range(width)], [None] * width
    elif pa.types.is_struct(key_type):
        fields = [key_type.field(i) for i in range(key_type.num_fields)]
        names, types = [f.name for f in fields], [f.type for f in fields]
    else:
        raise ValueError(f"composite keys where {key_type} is expected")
    for row in rows:
        fits = row is None or (isinstance(row, tuple) and len(row) == len(names))
        if not fits and not (isinstance(row, dict) and sorted(row) == sorted(names)):
            raise ValueError(
                f"composite keys must all have the columns {', '.join(names)}, unlike {key_repr(row)}"
            )
    columns = []
    for i, (name, column_type) in enumerate(zip(names, types, strict=True)):
        values = [None if row is None else row[name if isinstance(row, dict) else i] for row in rows]
        columns.append(_to_arrow(values, column_type))
    return pa.StructArray.from_arrays(columns, names=names)


def _convert(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The array as one of the supported type `target`, or a ValueError that names both types."""
    if array.type.equals(target):
        return array
    if pa.types.is_dictionary(array.type):
        return _convert(array.dictionary_decode(), target)
    refusal = f"keys of type {array.type} where {target} is expected"
    if pa.types.is_struct(array.type) and pa.types.is_struct(target):
        # Arrow's own cast would match the fields by name and fill missing ones with nulls
        if not _same_columns(array.type, target):
            raise ValueError(refusal)
        columns = [_convert(column, target.field(i).type) for i, column in enumerate(array.flatten())]
        return pa.StructArray.from_arrays(columns, names=[target.field(i).name for i in range(len(columns))])
    inexact = pa.types.is_floating(array.type) and pa.types.is_decimal(target)
    if inexact or (not pa.types.is_null(array.type) and _family(array.type) != _family(target)):
        raise ValueError(refusal)
    try:
        return array.cast(target)
    except pa.ArrowException as error:
        raise ValueError(f"{refusal}: {error}") from error


def _same_columns(source: pa.StructType, target: pa.StructType) -> bool:
    """Whether both have the same columns, or either those of tuples, which have positions but no names."""
    source_names, target_names = ([t.field(i).name for i in range(t.num_fields)] for t in (source, target))
    positions = [f"_{i + 1}" for i in range(len(source_names))]
    same = source_names == target_names or positions in (source_names, target_names)
    return same and len(source_names) == len(target_names)


def _family(t: pa.DataType) -> str:
    """The types that are cast into each other: a number is never taken for text, nor a boolean for a number."""
    text = supported_type(t) in (pa.string(), pa.binary())
    number = pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)
    return "text" if text else "number" if number else str(supported_type(t)).partition("[")[0]


def _chain(array: pa.Array, seeds: _U64) -> _U64:
    """Hash `array` with a seed for each row; a null row keeps its seed."""
    t = array.type
    if pa.types.is_null(t):
        return seeds
    if pa.types.is_struct(t):
        hashed = seeds
        for column in array.flatten():
            hashed = _chain(column, hashed)
        return hashed
    # invalid: a signalling NaN, which may also hide under a null
    with np.errstate(over="ignore", invalid="ignore"):
        hashed = _hash_values(array, seeds)
    if array.null_count:
        return np.where(np.asarray(array.is_null()), seeds, hashed)
    return hashed


def _hash_values(array: pa.Array, seeds: _U64) -> _U64:
    t = array.type
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return _hash_ragged(*_byte_ranges(array), seeds)
    if pa.types.is_decimal(t):
        words = _fixed_width(array, np.dtype("<u8"), 2).reshape(-1, 2)
        if t.precision <= 18:
            return _hash_long(words[:, 0], seeds)
        return _hash_ragged(*_big_integer_bytes(words), seeds)
    if pa.types.is_boolean(t):
        return _hash_int(np.asarray(array.fill_null(False)).astype(np.uint64), seeds)
    if pa.types.is_float64(t):
        # adding 0.0 turns -0.0 into 0.0
        values = _fixed_width(array, np.dtype("<f8")) + 0.0
        return _hash_long(np.where(np.isnan(values), np.nan, values).view(np.uint64), seeds)
    if pa.types.is_float32(t):
        values = _fixed_width(array, np.dtype("<f4")) + np.float32(0.0)
        bits = np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)
        return _hash_int(bits.astype(np.uint64), seeds)
    if pa.types.is_int64(t) or pa.types.is_timestamp(t):
        return _hash_long(_fixed_width(array, np.dtype("<u8")), seeds)
    small = pc.cast(array, pa.int32()) if not pa.types.is_date32(t) else array
    return _hash_int(_fixed_width(small, np.dtype("<u4")).astype(np.uint64), seeds)


def _fixed_width(array: pa.Array, dtype: np.dtype[Any], per_row: int = 1) -> NDArray[Any]:
    buffer = array.buffers()[1]
    first, count = array.offset * per_row, len(array) * per_row
    return np.frombuffer(buffer, dtype=dtype, count=count, offset=first * dtype.itemsize)


def _byte_ranges(array: pa.Array) -> tuple[_Bytes, _Index, _Index]:
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, offset=array.offset * 4).astype(np.int64)
    values = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8)
    return values, ends[:-1], np.diff(ends)


def _big_integer_bytes(words: _U64) -> tuple[_Bytes, _Index, _Index]:
    """The shortest big-endian two's complement of 128-bit integers, as Java's BigInteger writes them."""
    data = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 16)[:, ::-1]
    sign = np.where(data[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # a leading byte is redundant while it repeats the sign and the next byte starts with the sign bit
    redundant = (data[:, :-1] == sign) & ((data[:, 1:] ^ sign) < 0x80)
    skipped = np.minimum.accumulate(redundant, axis=1).sum(axis=1)
    starts = np.arange(len(data)) * 16 + skipped
    return np.ascontiguousarray(data).reshape(-1), starts, 16 - skipped


def _rotl(x: _U64, bits: int) -> _U64:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _avalanche(h: _U64) -> _U64:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


def _add_word(h: _U64, word: _U64) -> _U64:
    return _rotl(h ^ (_rotl(word * _P2, 31) * _P1), 27) * _P1 + _P4


def _add_half_word(h: _U64, half: _U64) -> _U64:
    return _rotl(h ^ (half * _P1), 23) * _P2 + _P3


def _hash_long(values: _U64, seeds: _U64) -> _U64:
    return _avalanche(_add_word(seeds + _P5 + np.uint64(8), values))


def _hash_int(values: _U64, seeds: _U64) -> _U64:
    return _avalanche(_add_half_word(seeds + _P5 + np.uint64(4), values))


def _hash_ragged(data: _Bytes, starts: _Index, lengths: _Index, seeds: _U64) -> _U64:
    hashed = _hash_short(data, starts, np.where(lengths > LONG_VALUE, 0, lengths), seeds)
    for row in np.flatnonzero(lengths > LONG_VALUE):
        value = data[starts[row] : starts[row] + lengths[row]].tobytes()
        hashed[row] = xxhash.xxh64_intdigest(value, seed=int(seeds[row]))
    return hashed


def _hash_short(data: _Bytes, starts: _Index, lengths: _Index, seeds: _U64) -> _U64:
    """XXH64 of the byte ranges, longest first, so that the rows still active in a round are a prefix."""
    order = np.argsort(-lengths, kind="stable")
    at, left, seed = starts[order], lengths[order], seeds[order]
    total = left.astype(np.uint64)

    h = seed + _P5
    stripes = int(np.count_nonzero(left >= 32))
    if stripes:
        h[:stripes] = _hash_stripes(data, at[:stripes], left[:stripes], seed[:stripes])
        consumed = left[:stripes] & ~np.int64(31)
        at[:stripes] += consumed
        left[:stripes] -= consumed
    h = h + total

    words = _overlapping(data, np.dtype("<u8"))
    for _ in range(3):
        active = np.flatnonzero(left >= 8)
        if not len(active):
            break
        h[active] = _add_word(h[active], words[at[active]])
        at[active] += 8
        left[active] -= 8
    active = np.flatnonzero(left >= 4)
    if len(active):
        halves = _overlapping(data, np.dtype("<u4"))[at[active]].astype(np.uint64)
        h[active] = _add_half_word(h[active], halves)
        at[active] += 4
        left[active] -= 4
    for _ in range(3):
        active = np.flatnonzero(left >= 1)
        if not len(active):
            break
        h[active] = _rotl(h[active] ^ (data[at[active]].astype(np.uint64) * _P5), 11) * _P1
        at[active] += 1
        left[active] -= 1

    hashed = np.empty_like(h)
    hashed[order] = _avalanche(h)
    return hashed


def _hash_stripes(data: _Bytes, at: _Index, left: _Index, seed: _U64) -> _U64:
    """The four-lane part of XXH64 for values of 32 bytes or more, longest first."""
    words = _overlapping(data, np.dtype("<u8"))
    lanes: list[_U64] = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
    for stripe in range(int(left[0]) // 32):
        n = int(np.count_nonzero(left >= 32 * (stripe + 1)))
        for i, lane in enumerate(lanes):
            word: _U64 = words[at[:n] + (32 * stripe + 8 * i)]
            lane[:n] = _rotl(lane[:n] + word * _P2, 31) * _P1
    h = _rotl(lanes[0], 1) + _rotl(lanes[1], 7) + _rotl(lanes[2], 12) + _rotl(lanes[3], 18)
    for lane in lanes:
        h = (h ^ (_rotl(lane * _P2, 31) * _P1)) * _P1 + _P4
    return h


def _overlapping(data: NDArray[np.uint8], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A view of `data` as words that start at every byte."""
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray(shape=(count,), dtype=dtype, buffer=data, strides=(1,)) if count else np.zeros(0, dtype)


def key_iter(keys: pa.Array) -> Iterable[Any]:
    """The keys as Python values, a composite key as a tuple."""
    if pa.types.is_struct(keys.type):
        return zip(*(key_iter(column) for column in keys.flatten()), strict=True)
    try:
        return keys.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        # dates and times that Python cannot hold: their number of days or microseconds; bytes that are no text: escaped
        return [_as_python(value) for value in keys]


def _as_python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    except (OverflowError, ValueError):
        return value.value


def key_repr(key: Any) -> str:
    r"""A key in the `repr` of something else: escaped and cut, since keys are hostile text of any length.

    >>> print(key_repr("a\nb"), key_repr("x" * 100), key_repr(("UA", None)))
    'a\nb' 'xxxxxxxxxxxx...xxxxxxxxxxxxx' ('UA', None)
    """
    return _SHORT.repr(key)
