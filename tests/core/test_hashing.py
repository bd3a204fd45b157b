"""The hash of a key equals that of the `xxhash` package and that of a real Spark."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tests.core import golden
from unskew.core import hashing
from unskew.core.hashing import as_keys, buckets_of, hash_keys, key_iter, supported_type

INT64 = st.integers(-(2**63), 2**63 - 1)


def reference(value: bytes | None, seed: int = 42) -> int:
    """XXH64 of one value by the package, signed as Spark shows it; a null leaves the seed."""
    digest = seed % 2**64 if value is None else xxhash.xxh64_intdigest(value, seed=seed % 2**64)
    return digest - 2**64 if digest >= 2**63 else digest


def hashes(keys: Any, key_type: pa.DataType | None = None) -> list[int]:
    return hash_keys(keys, key_type).tolist()


class TestAgainstXxhash:
    @given(st.lists(st.none() | st.binary(max_size=130), max_size=40))
    def test_binary_of_any_length(self, values: list[bytes | None]) -> None:
        assert hashes(values, pa.binary()) == [reference(v) for v in values]

    def test_every_length_around_the_vectorised_limit(self) -> None:
        values = [bytes(i % 251 for i in range(n)) for n in [*range(100), *range(500, 530), 5000]]
        assert hashes(values) == [reference(v) for v in values]

    @given(st.lists(st.tuples(st.none() | st.binary(max_size=70), st.none() | st.binary(max_size=70))))
    def test_a_column_is_the_seed_of_the_next(self, rows: list[tuple[bytes | None, bytes | None]]) -> None:
        keys = pa.StructArray.from_arrays(
            [pa.array([r[i] for r in rows], pa.binary()) for i in (0, 1)], names=["x", "y"]
        )
        assert hashes(keys) == [reference(y, reference(x)) for x, y in rows]

    @given(st.lists(st.none() | st.text(max_size=40)))
    def test_text_is_its_utf8(self, values: list[str | None]) -> None:
        assert hashes(values, pa.string()) == [reference(None if v is None else v.encode()) for v in values]

    @given(st.lists(st.none() | INT64, min_size=1))
    def test_longs(self, values: list[int | None]) -> None:
        expected = [reference(None if v is None else struct.pack("<q", v)) for v in values]
        assert hashes(values, pa.int64()) == expected
        assert hashes(pa.array(values, pa.timestamp("us"))) == expected

    @pytest.mark.parametrize("key_type", [pa.int8(), pa.int16(), pa.int32()])
    def test_small_integers_are_hashed_as_ints(self, key_type: pa.DataType) -> None:
        values = [-128, -1, 0, 1, 127, None]
        expected = [reference(None if v is None else struct.pack("<i", v)) for v in values]
        assert hashes(values, key_type) == expected

    @given(st.lists(st.floats() | st.none()))
    def test_doubles_with_one_zero_and_one_nan(self, values: list[float | None]) -> None:
        def packed(v: float | None) -> bytes | None:
            return None if v is None else struct.pack("<d", math.nan if math.isnan(v) else v + 0.0)

        assert hashes(values, pa.float64()) == [reference(packed(v)) for v in values]

    @given(st.lists(st.floats(width=32)))
    def test_floats(self, values: list[float]) -> None:
        packed = [struct.pack("<f", math.nan if math.isnan(v) else v + 0.0) for v in values]
        assert hashes(values, pa.float32()) == [reference(v) for v in packed]

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_every_nan_is_the_same_key(self, dtype: str) -> None:
        infinity = {"float32": 0x7F80 << 16, "float64": 0x7FF0 << 48}[dtype]
        signalling, quiet = infinity + 1, infinity | (infinity >> 1)
        bits = np.array([quiet, quiet + 5, signalling], dtype=f"uint{dtype[-2:]}")
        assert np.isnan(bits.view(dtype)).all()
        assert len(set(hashes(bits.view(dtype)))) == 1

    @given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)))
    def test_large_decimals_are_the_shortest_two_s_complement(self, values: list[int]) -> None:
        def packed(v: int) -> bytes:
            return v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "big", signed=True)

        decimals = [Decimal(v) for v in values]
        assert hashes(decimals, pa.decimal128(38, 0)) == [reference(packed(v)) for v in values]

    @given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1)))
    def test_small_decimals_are_their_unscaled_long(self, values: list[int]) -> None:
        decimals = [Decimal(v).scaleb(-4) for v in values]
        assert hashes(decimals, pa.decimal128(18, 4)) == [reference(struct.pack("<q", v)) for v in values]

    def test_more_rows_than_a_chunk(self) -> None:
        many = np.arange(hashing._CHUNK + 5)
        assert hash_keys(many)[-5:].tolist() == [reference(struct.pack("<q", v)) for v in many[-5:].tolist()]


@pytest.mark.parametrize("column", golden.columns(), ids=lambda column: column["name"])
def test_equals_what_spark_computed(column: dict[str, Any]) -> None:
    ours = zip(column["values"], hashes(golden.keys_of(column)), strict=True)
    assert list(ours) == list(zip(column["values"], column["xxhash64"], strict=True))


def test_the_golden_file_covers_every_supported_type() -> None:
    def leaves(t: pa.DataType) -> set[str]:
        if pa.types.is_struct(t):
            return set().union(*(leaves(t.field(i).type) for i in range(t.num_fields)))
        return {str(t).partition("(")[0]}

    covered = set().union(*(leaves(golden.keys_of(c).type) for c in golden.columns()))
    assert covered == {
        *("null", "string", "binary", "bool", "int8", "int16", "int32", "int64"),
        *("float", "double", "decimal128", "date32[day]", "timestamp[us, tz=UTC]", "timestamp[us]"),
    }


has_views = pytest.mark.skipif(not hasattr(pa, "string_view"), reason="views: since Arrow 16")


# those of 32 and 64 bits: since Arrow 18
decimals = [getattr(pa, f"decimal{bits}") for bits in (32, 64, 256) if hasattr(pa, f"decimal{bits}")]


class TestForms:
    """The same keys have the same hashes in every form."""

    KEYS = ("a", None, "", "key", "a" * 100)

    def expected(self) -> list[int]:
        return [reference(None if k is None else k.encode()) for k in self.KEYS]

    @pytest.mark.parametrize(
        "make",
        [
            list,
            tuple,
            pa.array,
            lambda keys: pa.array(keys, pa.large_string()),
            pytest.param(lambda keys: pa.array(keys, pa.string_view()), marks=has_views),
            lambda keys: pa.array(keys).dictionary_encode(),
            lambda keys: pa.chunked_array([keys[:2], keys[2:2], keys[2:]], pa.string()),
            lambda keys: pa.chunked_array(
                [pa.array(part).dictionary_encode() for part in (keys[:2], keys[2:])]
            ),
            lambda keys: pa.array(["other", *keys, "other"])[1:-1],
            lambda keys: np.array(keys, dtype=object),
            lambda keys: pd.Series(keys),
            lambda keys: pd.Series(keys).fillna(np.nan),
            lambda keys: pd.Series(keys, dtype="category"),
            lambda keys: pd.Series(keys, dtype="string"),
            lambda keys: pd.Series(keys, dtype="string[pyarrow]"),
            lambda keys: pd.Series(keys, dtype=pd.ArrowDtype(pa.string())),
            lambda keys: pd.Index(keys),
            lambda keys: pd.Series(["other", *keys])[1:],
        ],
    )
    def test_text(self, make: Any) -> None:
        assert hashes(make(self.KEYS)) == self.expected()

    @given(st.data())
    def test_slices(self, data: st.DataObject) -> None:
        types = [
            *(pa.string(), pa.binary(), pa.int16(), pa.int64(), pa.bool_(), pa.float32(), pa.float64()),
            *(pa.decimal128(9, 2), pa.decimal128(30, 2), pa.date32(), pa.timestamp("us")),
        ]
        values = {
            "string": ["x", None, "yy" * 20, ""],
            "binary": [b"x", None, b"yy" * 20, b""],
            "bool": [True, None, False, True],
        }
        key_type = data.draw(st.sampled_from(types))
        column = values.get(str(key_type), [1, None, 2, 3])
        if pa.types.is_decimal(key_type):
            column = [None if v is None else Decimal(v) for v in column]
        array = pa.array(column * 5, key_type)
        both = pa.StructArray.from_arrays([array, array], names=["x", "y"])
        first, last = sorted(data.draw(st.tuples(st.integers(0, 20), st.integers(0, 20))))
        assert hashes(array[first:last]) == hashes(array)[first:last]
        assert hashes(both[first:last]) == hashes(both)[first:last]

    def test_numpy_text_and_bytes(self) -> None:
        assert hashes(np.array(["a", "bb"])) == hashes(["a", "bb"])
        assert hashes(np.array([b"a", b"bb"])) == hashes([b"a", b"bb"])

    def test_fixed_size_and_large_binaries(self) -> None:
        assert hashes(pa.array([b"ab"], pa.binary(2))) == [reference(b"ab")]
        assert hashes(pa.array([b"ab"], pa.large_binary())) == [reference(b"ab")]

    @has_views
    def test_view_binaries(self) -> None:
        assert hashes(pa.array([b"ab"], pa.binary_view())) == [reference(b"ab")]

    def test_pandas_integers_with_nulls(self) -> None:
        assert hashes(pd.Series([1, None], dtype="Int64")) == hashes([1, None])
        assert hashes(pd.Series([1, None], dtype="Int32")) == hashes([1, None], pa.int32())

    def test_nan_is_missing_in_pandas_and_a_value_elsewhere(self) -> None:
        nan = reference(struct.pack("<d", math.nan))
        assert hashes(np.array([math.nan])) == hashes([math.nan]) == hashes(pa.array([math.nan])) == [nan]
        assert hashes(pd.Series([1.0, math.nan]))[1] == reference(None)

    def test_times(self) -> None:
        moment = dt.datetime(2024, 3, 31, 12, 30, 0, 5, tzinfo=dt.timezone.utc)
        micros = [reference(struct.pack("<q", 1711888200000005)), reference(None)]
        naive = pd.Series(pd.to_datetime([moment.replace(tzinfo=None), None]))
        assert naive.dtype == "datetime64[ns]"
        assert hashes(naive) == micros
        assert hashes(naive.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")) == micros
        assert hashes([moment, None]) == hashes([moment.replace(tzinfo=None), None]) == micros
        assert hashes(naive.to_numpy()) == micros

    def test_a_zone_does_not_make_another_type(self) -> None:
        berlin = supported_type(pa.timestamp("ns", "Europe/Berlin"))
        assert berlin == supported_type(pa.timestamp("us", "UTC")) == pa.timestamp("us", "UTC")
        assert supported_type(pa.timestamp("s")) == pa.timestamp("us")

    def test_dates(self) -> None:
        day = dt.date(1969, 12, 30)
        expected = [reference(struct.pack("<i", -2))]
        assert hashes([day]) == hashes(pa.array([day], pa.date64())) == expected
        assert hashes(np.array(["1969-12-30"], dtype="datetime64[D]")) == expected

    @pytest.mark.parametrize("key_type", [make(5, 2) for make in decimals])
    def test_decimals_of_any_width(self, key_type: pa.DataType) -> None:
        assert hashes(pa.array([Decimal("-1.25")], key_type)) == hashes(
            [Decimal("-1.25")], pa.decimal128(5, 2)
        )

    def test_only_nulls_and_nothing(self) -> None:
        assert hashes([None, None]) == [42, 42]
        assert hashes([]) == hashes(pa.chunked_array([], pa.int64())) == []
        assert hashes(pa.nulls(2, pa.string())) == hashes(pa.nulls(2, pa.decimal128(30, 0))) == [42, 42]


class TestComposite:
    def test_tuples_dicts_and_structs_agree(self) -> None:
        rows = [("a", 1), (None, 2), ("b", None), None]
        key_type = pa.struct([("user", pa.string()), ("item", pa.int64())])
        as_dicts = [None if r is None else {"item": r[1], "user": r[0]} for r in rows]
        expected = hashes(rows)
        assert expected[0] == reference(struct.pack("<q", 1), reference(b"a"))
        assert expected[3] == 42
        assert hashes(rows, key_type) == hashes(as_dicts, key_type) == expected
        assert hashes(pa.array(as_dicts, key_type)) == expected
        assert hashes(pd.Series(rows)) == hashes([None, *rows])[1:] == expected

    def test_a_null_struct_is_null_even_if_its_fields_are_not(self) -> None:
        array = pa.StructArray.from_arrays([pa.array(["a", "a"])], names=["x"], mask=pa.array([True, False]))
        assert hashes(array) == [42, reference(b"a")]

    def test_nested(self) -> None:
        rows = [(("a", 1), b"x"), ((None, 2), None), (None, b"y")]
        inner = pa.struct([("p", pa.string()), ("q", pa.int64())])
        key_type = pa.struct([("x", inner), ("y", pa.binary())])
        expected = [
            reference(b"x", reference(struct.pack("<q", 1), reference(b"a"))),
            reference(struct.pack("<q", 2)),
            reference(b"y"),
        ]
        assert hashes(rows) == hashes(rows, key_type) == expected
        assert list(key_iter(as_keys(rows, key_type))) == [*rows[:2], ((None, None), b"y")]

    def test_dictionary_columns_and_equal_names(self) -> None:
        columns = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", None], pa.large_string())]
        array = pa.StructArray.from_arrays(columns, names=["x", "x"])
        assert hashes(array) == hashes([("a", "c"), ("b", None)])

    def test_columns_go_by_position_only_where_they_have_no_names(self) -> None:
        named = pa.struct([("user", pa.string()), ("item", pa.int64())])
        positions = as_keys([("a", 1)])
        assert as_keys(positions, named).type == named
        assert hashes(positions, named) == hashes(positions)
        assert hashes(as_keys(positions, named), positions.type) == hashes(positions)
        reordered = pa.array([{"item": 1, "user": "a"}])
        with pytest.raises(ValueError, match=r"struct<item.* where struct<user"):
            as_keys(reordered, named)
        with pytest.raises(ValueError, match="struct<_1"):
            as_keys(as_keys([("a", 1, 2)]), named)

    @pytest.mark.parametrize("rows", [[("a", 1), ("b",)], [("a", 1), "b"], [("a", 1), {"user": "a"}]])
    def test_rows_of_another_shape_are_refused(self, rows: list[Any]) -> None:
        with pytest.raises(ValueError, match="composite keys must all have the columns _1, _2"):
            as_keys(rows)

    def test_unknown_fields_are_not_taken_for_nulls(self) -> None:
        with pytest.raises(ValueError, match="columns user"):
            as_keys([{"usr": "a"}], pa.struct([("user", pa.string())]))

    def test_tuples_where_a_plain_key_is_expected(self) -> None:
        with pytest.raises(ValueError, match="composite keys where string is expected"):
            as_keys([("a", 1)], pa.string())


class TestRefusals:
    @pytest.mark.parametrize(
        ("key_type", "name"),
        [
            (pa.list_(pa.int64()), "list"),
            (pa.uint8(), "uint8"),
            (pa.uint64(), "uint64"),
            (pa.float16(), "halffloat"),
            (pa.time64("us"), "time64"),
            (pa.duration("us"), "duration"),
            (pa.map_(pa.string(), pa.string()), "map"),
            (pa.decimal256(50, 2), r"decimal256\(50, 2\)"),
            (pa.decimal128(5, -2), r"decimal128\(5, -2\)"),
            (pa.struct([("x", pa.list_(pa.int64()))]), "list"),
            (pa.dictionary(pa.int32(), pa.uint16()), "uint16"),
        ],
    )
    def test_an_unsupported_type_is_named(self, key_type: pa.DataType, name: str) -> None:
        with pytest.raises(ValueError, match=f"unsupported key type .*{name}.*cast the key column"):
            as_keys(pa.array([], key_type))
        with pytest.raises(ValueError, match=name):
            as_keys(["a"], key_type)

    def test_a_composite_without_columns(self) -> None:
        with pytest.raises(ValueError, match="at least one column"):
            supported_type(pa.struct([]))

    def test_other_array_kinds(self) -> None:
        with pytest.raises(ValueError, match="run_end_encoded"):
            as_keys(pa.RunEndEncodedArray.from_arrays([2], ["a"]))
        with pytest.raises(ValueError, match="period"):
            as_keys(pd.period_range("2020", periods=2).to_series())

    @pytest.mark.parametrize(
        "keys",
        [
            ["a", 1],
            [1, "a"],
            [2**70],
            ["\ud800"],
            np.zeros((2, 2)),
            np.array([1], dtype=">i8"),
            np.array(["a", 1.5], dtype=object),
            [object()],
        ],
    )
    def test_keys_of_mixed_types_are_refused(self, keys: Any) -> None:
        with pytest.raises(ValueError, match="the keys are not values of one type"):
            as_keys(keys)

    @pytest.mark.parametrize("keys", ["abc", b"abc", bytearray(b"abc")])
    def test_one_key_instead_of_a_column(self, keys: Any) -> None:
        with pytest.raises(ValueError, match=r"not one key: write \["):
            as_keys(keys)

    def test_a_frame_is_not_taken_for_its_column_names(self) -> None:
        frame = pd.DataFrame({"a": [1], "b": [2]})
        for table in (frame, pa.table(frame)):
            with pytest.raises(ValueError, match="not a frame or table"):
                as_keys(table)

    @pytest.mark.parametrize(
        ("keys", "key_type"),
        [
            (pa.array([1]), pa.string()),
            ([1], pa.string()),
            (["a"], pa.int64()),
            ([1.5], pa.int64()),
            ([0.1], pa.decimal128(38, 18)),
            ([Decimal("0.123")], pa.decimal128(10, 2)),
            (np.array([1.5]), pa.string()),
            (pa.array(["12"]), pa.int64()),
            (pa.array([True]), pa.int64()),
            (pa.array([1]), pa.bool_()),
            (pa.array([1]), pa.timestamp("us")),
            (pa.array([1], pa.timestamp("us")), pa.date32()),
            (pa.array([1.5]), pa.int64()),
            (pa.array([2**40]), pa.int32()),
            (pa.array([1001], pa.timestamp("ns")), pa.timestamp("us")),
            (pa.array([b"\xff"]), pa.string()),
            (pa.array(["a"]), pa.struct([("x", pa.string())])),
            (pa.array([{"x": "a"}]), pa.string()),
        ],
    )
    def test_a_column_of_another_type_is_not_guessed_at(self, keys: Any, key_type: pa.DataType) -> None:
        with pytest.raises(ValueError, match=r"keys of type .* where .* is expected"):
            as_keys(keys, key_type)

    def test_nanoseconds_are_refused_rather_than_truncated(self) -> None:
        with pytest.raises(ValueError, match="would lose data"):
            as_keys(pd.Series(pd.to_datetime(["2024-01-01 00:00:00.000000001"])))


def test_widening_within_a_family() -> None:
    assert hashes(np.array([1, 2], dtype=np.int8), pa.int64()) == hashes([1, 2])
    assert hashes(pa.array([1, 2]), pa.float64()) == hashes([1.0, 2.0])
    assert hashes(pa.array(["a"]), pa.binary()) == hashes(["a"])
    assert hashes(pa.nulls(1), pa.int64()) == [42]


def test_a_type_of_null_stands_for_any() -> None:
    assert as_keys(["a"], pa.null()).type == pa.string()


@given(st.lists(INT64, min_size=1), st.integers(1, 10_000))
def test_bucket_is_the_positive_remainder(values: list[int], buckets: int) -> None:
    assert buckets_of(np.array(values), buckets).tolist() == [v % buckets for v in values]


def test_bytes_that_are_no_text_are_shown_escaped() -> None:
    keys = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    assert list(key_iter(keys)) == ["ok", "\\xff\\xfe"]
