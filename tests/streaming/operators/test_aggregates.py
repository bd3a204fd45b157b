"""Aggregates equal plain Python over the same records, however these were split and merged."""

from __future__ import annotations

import datetime as dt
import math
import pickle  # noqa: TID251  # as Spark ships them to its workers
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.streaming.operators import aggregates as agg
from unskew.streaming.operators.aggregates import approx_distinct, count, first, last, mean, top_k, variance
from unskew.streaming.operators.aggregation import Aggregate, Aggregation

Rows = list[dict[str, Any]]

SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "small": pa.int32(),
        "x": pa.float64(),
        "f": pa.float64(),
        "f32": pa.float32(),
        "d": pa.decimal128(10, 2),
        "s": pa.string(),
        "b": pa.binary(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "flag": pa.bool_(),
    }
)
ORDERED = [name for name in SCHEMA.names if name != "x"]
NUMBERS = ["i", "small", "x", "d"]

# few values each, so that ties and repetitions are common
_ANY_FLOAT = st.sampled_from([0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf])
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.integers(-(2**40), 2**40),
    "small": st.integers(-(2**31), 2**31 - 1),
    "x": st.floats(-1e6, 1e6),
    "f": _ANY_FLOAT | st.floats(),
    "f32": _ANY_FLOAT | st.floats(width=32),
    "d": st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    "s": st.sampled_from(["", "a", "b", "ab", "ä", "\U0001f600", "�"]),
    "b": st.sampled_from([b"", b"a", b"\xff", b"a\x00"]),
    "day": st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 3)),
    "at": st.datetimes(dt.datetime(1969, 1, 1), dt.datetime(2030, 1, 1), timezones=st.just(dt.timezone.utc)),
    "flag": st.booleans(),
}
RECORDS = st.lists(st.fixed_dictionaries({name: st.none() | v for name, v in _VALUES.items()}), max_size=16)


def order(value: Any) -> Any:
    """Spark's order of values: NaN above all numbers with either sign; strings by their bytes."""
    if isinstance(value, float):
        return (True, 0.0, 1.0) if math.isnan(value) else (False, value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


def py_sum(values: list[Any]) -> Any:
    return None if not values else math.fsum(values) if isinstance(values[0], float) else sum(values)


def py_min(values: list[Any]) -> Any:
    return min(values, key=order, default=None)


def py_max(values: list[Any]) -> Any:
    return max(values, key=order, default=None)


def py_mean(values: list[Any]) -> Any:
    if not values:
        return None
    if isinstance(values[0], Decimal):
        with localcontext(prec=60):
            return (sum(values) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return statistics.fmean(values)


def py_variance(values: list[Any]) -> Any:
    return float(statistics.variance(map(float, values))) if len(values) > 1 else None


def py_edge(x: str, by: str, pick: Callable[[list[Any]], Any]) -> Callable[[Rows], Any]:
    def of(rows: Rows) -> Any:
        timed = [row for row in rows if row[by] is not None]
        edge = order(pick([row[by] for row in timed])) if timed else None
        tied = [row[x] for row in timed if order(row[by]) == edge]
        return pick([value for value in tied if value is not None])

    return of


def py_top(values: list[Any], k: int) -> list[dict[str, Any]]:
    alike = [("nan" if math.isnan(v) else v + 0.0) if isinstance(v, float) else v for v in values]
    counts = Counter(alike)
    pairs = [(math.nan if value == "nan" else value, n) for value, n in counts.items()]
    if values and isinstance(values[0], str):
        pairs = list(Counter(values).items())
    pairs.sort(key=lambda pair: (-pair[1], order(pair[0])))
    return [{"value": value, "count": n} for value, n in pairs[:k]]


def py_distinct(values: list[Any]) -> int:
    return len({order(v + 0.0) if isinstance(v, float) else v for v in values})


def _of(column: str, function: Callable[[list[Any]], Any]) -> Callable[[Rows], Any]:
    return lambda rows: function([row[column] for row in rows if row[column] is not None])


CASES: dict[str, tuple[Aggregate, Callable[[Rows], Any]]] = {"n": (count(), len)}
for c in SCHEMA.names:
    CASES[f"count {c}"] = count(c), _of(c, len)
for c in NUMBERS:
    CASES[f"sum {c}"] = agg.sum(c), _of(c, py_sum)
    CASES[f"mean {c}"] = mean(c), _of(c, py_mean)
    CASES[f"variance {c}"] = variance(c), _of(c, py_variance)
for c in ORDERED:
    CASES[f"min {c}"] = agg.min(c), _of(c, py_min)
    CASES[f"max {c}"] = agg.max(c), _of(c, py_max)
    CASES[f"first {c}"] = first(c, by="flag"), py_edge(c, "flag", py_min)
    CASES[f"last {c}"] = last(c, by="day"), py_edge(c, "day", py_max)
    CASES[f"first by {c}"] = first("i", by=c), py_edge("i", c, py_min)
    CASES[f"last by {c}"] = last("s", by=c), py_edge("s", c, py_max)
    CASES[f"distinct {c}"] = approx_distinct(c, k=16), _of(c, py_distinct)
    CASES[f"top {c}"] = top_k(c, k=2), _of(c, lambda values: py_top(values, 2))

ALL = Aggregation({name: aggregate for name, (aggregate, _) in CASES.items()}, SCHEMA)


def table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def dense(ids: Sequence[int]) -> tuple[list[int], np.ndarray, int]:
    """The groups that occur, last new group first; the ids renumbered in that order; and how many groups there are."""
    present = list(dict.fromkeys(ids))[::-1]
    numbers = {group: n for n, group in enumerate(present)}
    return present, np.array([numbers[i] for i in ids], np.int64), len(present)


def assert_alike(ours: pa.Table, truth: pa.Table | dict[str, list[Any]]) -> None:
    expected = truth if isinstance(truth, dict) else truth.to_pydict()
    for name, column in ours.to_pydict().items():
        rounded = name.startswith(("sum x", "mean", "variance"))
        for value, true_value in zip(column, expected[name], strict=True):
            if rounded and isinstance(value, float) and true_value is not None:
                assert math.isclose(value, true_value, rel_tol=1e-9, abs_tol=1e-6), name
            else:  # by repr, so that NaN equals itself and -0.0 is not 0.0
                assert repr(value) == repr(true_value), name


@settings(max_examples=60)
@given(RECORDS, st.data())
def test_any_split_merged_in_any_order_equals_plain_python(rows: Rows, data: st.DataObject) -> None:
    def drawn(limit: int) -> list[int]:
        return data.draw(st.lists(st.integers(0, limit), min_size=len(rows), max_size=len(rows)))

    ids, parts = drawn(2), drawn(3)
    present, numbers, groups = dense(ids)
    at_once = ALL.partial(table(rows), numbers, groups)

    states: list[tuple[list[int], pa.Table]] = []
    for part in data.draw(st.permutations(range(4))):
        members = [i for i in range(len(rows)) if parts[i] == part]
        local, local_ids, size = dense([ids[i] for i in members])
        states.append((local, ALL.partial(table([rows[i] for i in members]), local_ids, size)))
    while len(states) > 1:  # merge two or three of them, until one is left
        taken = [states.pop() for _ in range(data.draw(st.integers(2, 3 if len(states) > 2 else 2)))]
        local, local_ids, size = dense([group for labels, _ in taken for group in labels])
        merged = ALL.merge(pa.concat_tables([state for _, state in taken]), local_ids, size)
        states.insert(0, (local, merged))
    [(labels, merged)] = states
    merged = merged.take(pa.array([labels.index(group) for group in present], pa.int64()))

    assert merged.schema == at_once.schema == ALL.state_schema
    assert_alike(merged, at_once)
    rows_of = [[row for row, i in zip(table(rows).to_pylist(), ids, strict=True) if i == g] for g in present]
    final = ALL.final(merged)
    assert final.schema == ALL.output_schema
    assert_alike(final, {name: [python(group) for group in rows_of] for name, (_, python) in CASES.items()})


def over(aggregate: Aggregate, values: pa.Array, ids: Sequence[int] | None = None) -> list[Any]:
    """The aggregate of column x, in one group or in the groups `ids`."""
    rows = pa.table({"x": values})
    groups = np.zeros(len(rows), np.int64) if ids is None else np.array(ids, np.int64)
    aggregation = Aggregation({"a": aggregate}, rows.schema)
    return aggregation.final(aggregation.partial(rows, groups, int(groups.max()) + 1))["a"].to_pylist()


def test_no_rows_and_no_groups_give_an_empty_table() -> None:
    state = ALL.partial(table([]), np.zeros(0, np.int64), 0)
    assert state.schema == ALL.state_schema
    assert state.num_rows == ALL.merge(state, np.zeros(0, np.int64), 0).num_rows == 0
    assert ALL.final(state).schema == ALL.output_schema


def test_only_nulls_give_counts_but_no_values() -> None:
    rows = table([dict.fromkeys(SCHEMA.names)] * 2)
    [result] = ALL.final(ALL.partial(rows, np.zeros(2, np.int64), 1)).to_pylist()
    for name, value in result.items():
        empty: Any = 2 if name == "n" else 0 if name.startswith(("count", "distinct")) else None
        assert value == ([] if name.startswith("top") else empty), name


def test_chunked_sliced_and_encoded_columns_are_read_alike() -> None:
    words = ["b", None, "a", "b", "c", "a"]
    chunks = pa.chunked_array([words[:2], words[2:2], words[2:]], pa.string())
    encoded = pa.array(["z", *words]).dictionary_encode()[1:]
    large = pa.array([*words, "z"], pa.large_string()).slice(0, 6)
    names = {
        "n": count("x"),
        "min": agg.min("x"),
        "last": last("x", by="x"),
        "top": top_k("x"),
        "d": approx_distinct("x"),
    }
    expected = None
    for column in (chunks, encoded, large, pa.array(words)):
        rows = pa.table({"x": column})
        aggregation = Aggregation(names, rows.schema)
        state = aggregation.partial(rows, np.array([0, 0, 0, 1, 1, 1]), 2)
        padded = pa.concat_tables([state, state]).slice(1, 2)  # groups 1 and 0
        result = aggregation.final(aggregation.merge(padded, np.array([1, 0]), 2)).to_pydict()
        expected = expected or result
        assert result == expected
    assert expected is not None
    assert (expected["min"], expected["last"], expected["n"], expected["d"]) == (
        ["a", "a"],
        ["b", "c"],
        [2, 3],
        [2, 3],
    )


def test_records_of_another_width_than_declared_are_cast() -> None:
    aggregation = Aggregation({"m": agg.max("x")}, pa.schema({"x": pa.int64()}))
    state = aggregation.partial(pa.table({"x": pa.array([1, 2], pa.int32())}), np.array([0, 0]), 1)
    assert state.schema == aggregation.state_schema


def test_an_aggregation_survives_pickling() -> None:
    unpickled = pickle.loads(pickle.dumps(ALL))
    assert unpickled == ALL
    assert unpickled.state_schema == ALL.state_schema


def test_state_columns_have_unique_names() -> None:
    aggregation = Aggregation({"a": mean("i"), "a.sum": count(), "a.count": agg.sum("i")}, SCHEMA)
    assert len(set(aggregation.state_schema.names)) == 4
    assert aggregation.output_schema.names == ["a", "a.sum", "a.count"]


def test_the_types_of_the_results() -> None:
    types = {field.name: field.type for field in ALL.output_schema}
    assert (types["sum small"], types["sum x"], types["sum d"]) == (
        pa.int64(),
        pa.float64(),
        pa.decimal128(38, 2),
    )
    assert (types["mean i"], types["mean d"]) == (pa.float64(), pa.decimal128(38, 6))
    assert types["max at"] == pa.timestamp("us", "UTC")
    assert types["top s"] == pa.list_(pa.struct({"value": pa.string(), "count": pa.int64()}))


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1], [2**62] * 4, [2**63 - 1] * 3])
def test_a_sum_of_integers_that_does_not_fit_is_refused_by_name(values: list[int]) -> None:
    with pytest.raises(ArithmeticError, match=r"'x' does not fit int64: cast .* double"):
        over(agg.sum("x"), pa.array([*values, 7]), [0] * len(values) + [1])


def test_a_sum_of_integers_that_just_fits_is_exact() -> None:
    assert over(agg.sum("x"), pa.array([2**63 - 2, 1, -(2**63), None]), [0, 0, 1, 1]) == [2**63 - 1, -(2**63)]
    assert over(mean("x"), pa.array([2**63 - 1] * 4)) == [2.0**63]  # in doubles: no overflow


@pytest.mark.parametrize("copies", [2, 3, 4, 7])
def test_a_sum_of_decimals_that_does_not_fit_is_refused_by_name(copies: int) -> None:
    for sign in ("", "-"):  # 128 bits wrap around with the second copy
        values = pa.array([Decimal(sign + "9" * 36 + ".99")] * copies, pa.decimal128(38, 2))
        with pytest.raises(ArithmeticError, match=r"'x' does not fit decimal128\(38, 2\)"):
            over(agg.sum("x"), values)


def test_a_sum_of_decimals_of_39_digits_is_refused_though_128_bits_hold_it() -> None:
    values = pa.array([Decimal("9" * 36 + ".99"), Decimal("0.01")], pa.decimal128(38, 2))
    with pytest.raises(ArithmeticError, match="does not fit"):
        over(agg.sum("x"), values)


def test_a_sum_of_decimals_that_just_fits_is_exact() -> None:
    most, all_nines = Decimal("9" * 36 + ".98"), Decimal("9" * 36 + ".99")
    values = [most, Decimal("0.01"), all_nines.copy_negate()]
    assert over(agg.sum("x"), pa.array(values, pa.decimal128(38, 2)), [0, 0, 1]) == [all_nines, values[2]]
    with pytest.raises(ArithmeticError, match=r"mean of column 'x' does not fit decimal128\(38, 6\)"):
        over(mean("x"), pa.array([most], pa.decimal128(38, 2)))


def test_a_mean_of_decimals_is_rounded_half_up() -> None:
    cents = pa.array([Decimal("0.01"), *[Decimal("0.00")] * 31, Decimal("-0.01"), *[Decimal("0.00")] * 31])
    halves = over(mean("x"), cents, [0] * 32 + [1] * 32)  # 0.0003125 either way
    assert halves == [Decimal("0.000313"), Decimal("-0.000313")]


def test_variance_keeps_a_small_spread_around_a_large_mean() -> None:
    values = pa.array([1e9 + v for v in (4.0, 7.0, 13.0, 16.0)])
    assert over(variance("x"), values) == [pytest.approx(30.0, rel=1e-9)]
    assert over(variance("x"), pa.array([1e200, None, 1e200])) == [0.0]
    [of_infinity] = over(variance("x"), pa.array([math.inf, 1.0, 2.0]))
    assert math.isnan(of_infinity)


def test_last_takes_a_null_value_and_ignores_a_null_time() -> None:
    rows = pa.table({"time": [1, 2, None], "x": ["a", None, "z"]})
    aggregation = Aggregation({"first": first("x"), "last": last("x")}, rows.schema)
    result = aggregation.final(aggregation.partial(rows, np.zeros(3, np.int64), 1))
    assert result.to_pylist() == [{"first": "a", "last": None}]


def test_nan_is_one_value_with_either_sign() -> None:
    assert over(approx_distinct("x"), pa.array([math.nan, -math.nan, 1.0])) == [2]


@pytest.mark.parametrize("k", [2, 16, 256])
def test_distinct_is_exact_up_to_k_and_the_state_stays_bounded(k: int) -> None:
    assert over(approx_distinct("x", k), pa.array(list(range(k)) * 3)) == [k]
    rows = pa.table({"x": np.arange(10 * k)})
    state = Aggregation({"a": approx_distinct("x", k)}, rows.schema).partial(
        rows, np.zeros(10 * k, np.int64), 1
    )
    assert len(state["a.hashes"][0]) == k + 1


def test_distinct_errs_by_about_one_in_root_k() -> None:
    k, sizes = 256, np.repeat(np.array([300, 1_000, 4_000]), 20)
    values = np.arange(sizes.sum())  # different values in every group
    ids = np.repeat(np.arange(len(sizes)), sizes)
    errors = np.array(over(approx_distinct("x", k), pa.array(values), ids.tolist())) / sizes - 1
    assert np.sqrt((errors**2).mean()) < 1.2 / math.sqrt(k)
    assert abs(errors.mean()) < 3 / math.sqrt(k * len(sizes))  # and they are not biased
    assert errors.any()


def test_top_k_does_not_lose_a_value_that_trickles_in() -> None:
    aggregation = Aggregation({"a": top_k("x", 1)}, pa.schema({"x": pa.int64()}))
    rivals = pa.table({"x": list(range(8)) * 2})  # they take all eight counters, twice each
    state = aggregation.partial(rivals, np.zeros(16, np.int64), 1)
    for _ in range(50):
        arrival = aggregation.partial(pa.table({"x": [99]}), np.zeros(1, np.int64), 1)
        state = aggregation.merge(pa.concat_tables([state, arrival]), np.zeros(2, np.int64), 1)
    [[top]] = aggregation.final(state)["a"].to_pylist()
    assert top["value"] == 99
    assert 50 - 66 / 9 <= top["count"] <= 50


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 600), st.integers(1, 2), st.floats(0, 1.5), st.integers(20, 200))
def test_top_k_keeps_its_bounds_with_more_values_than_counters(
    seed: int, n: int, k: int, exponent: float, step: int
) -> None:
    shares = np.arange(1.0, 61.0) ** -exponent
    values = np.random.default_rng(seed).choice(60, n, p=shares / shares.sum())
    rows = pa.table({"x": values})
    aggregation = Aggregation({"a": top_k("x", k)}, rows.schema)
    state = None
    for at in range(0, n, step):
        part = rows.slice(at, step)
        new = aggregation.partial(part, np.zeros(len(part), np.int64), 1)
        both = new if state is None else pa.concat_tables([new, state])
        state = aggregation.merge(both, np.zeros(len(both), np.int64), 1)
    assert state is not None
    counters = {pair["value"]: pair["count"] for pair in state["a.counts"][0].as_py()}
    truth, max_error = Counter(values.tolist()), n / (8 * k + 1)
    assert len(counters) <= 8 * k
    assert all(truth[v] - max_error <= counters.get(v, 0) <= truth[v] for v in truth)
    [returned] = aggregation.final(state)["a"].to_pylist()
    next_best = [n for _, n in truth.most_common(k + 1)][k] if len(truth) > k else 0
    assert {v for v, n in truth.items() if n > next_best + max_error} <= {pair["value"] for pair in returned}
    assert len(returned) == min(len(counters), k)


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (agg.sum("s"), r"sum of column 's'.* type string: cast the column to a number"),
        (agg.sum("flag"), r"sum of column 'flag'.* type bool: cast"),
        (mean("at"), r"mean of column 'at'.* type timestamp.*: cast"),
        (variance("day"), r"variance of column 'day'.* type date32.*: cast"),
        (agg.max("nested"), r"max of column 'nested'.* type list<.*pick one field"),
        (agg.min("void"), r"min of column 'void'.* type null: cast"),
        (first("i", by="nested"), r"first by the order of column 'nested'.* type list"),
        (last("nested", by="i"), r"last of column 'nested'.* type list"),
        (approx_distinct("nested"), r"approx_distinct of column 'nested'.* type list"),
        (top_k("pair"), r"top_k of column 'pair'.* type struct.*pick one field"),
        (count("no"), r"count of column 'no': no column is called that; the columns are i, "),
        (last("i"), r"column 'time': no column is called that"),
        (agg.sum("twice"), r"column 'twice': more than one column is called that"),
    ],
)
def test_a_column_that_does_not_fit_is_refused_with_a_remedy(aggregate: Aggregate, message: str) -> None:
    schema = SCHEMA.append(pa.field("nested", pa.list_(pa.int64()))).append(pa.field("void", pa.null()))
    schema = schema.append(pa.field("pair", pa.struct({"a": pa.int64()})))
    schema = schema.append(pa.field("twice", pa.int64())).append(pa.field("twice", pa.int64()))
    with pytest.raises(ValueError, match=message):
        Aggregation({"a": aggregate}, schema)


def test_a_count_takes_a_column_of_any_type() -> None:
    assert over(count("x"), pa.array([[1], None, []])) == [2]


def test_mistakes_in_a_call_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="name of a column, not 5"):
        agg.sum(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name of a column, not None"):
        last("x", by=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k is a whole number of at least 1, not 0"):
        top_k("x", 0)
    with pytest.raises(ValueError, match="k is a whole number of at least 2, not 1"):
        approx_distinct("x", k=1)
    with pytest.raises(ValueError, match="nothing to aggregate"):
        Aggregation({}, SCHEMA)
    with pytest.raises(ValueError, match="n is 'count', not an aggregate"):
        Aggregation({"n": "count"}, SCHEMA)  # type: ignore[dict-item]
