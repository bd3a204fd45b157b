"""A file that is not exactly what was written is refused by name."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.core import files
from unskew.core.files import UnreadableFileError, decode, encode
from unskew.core.histogram import Histogram
from unskew.core.plan import Plan
from unskew.core.routing import RoutingTable

META = {"slots": 3, "note": "käse \u2028 <b>", "nested": [1, 2.5, None, True]}
TABLES = {"heavy": pa.table({"x": [1, 2, 3]}), "empty": pa.table({"y": pa.array([], pa.string())})}
FILE = encode("table", 3, META, TABLES)
HEADER = FILE.index(b"\n")


def read(data: bytes) -> Any:
    return decode(data, "table", 3, "some/file")


def assert_refused(data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match=r"^some/file: "):
        read(data)


def test_round_trip() -> None:
    meta, tables = read(FILE)
    assert meta == META
    assert list(tables) == list(TABLES)
    assert all(tables[name].equals(table) for name, table in TABLES.items())


def test_the_same_content_is_the_same_bytes() -> None:
    assert encode("table", 3, dict(reversed(META.items())), TABLES) == FILE


def test_every_flipped_bit() -> None:
    for at in range(len(FILE)):
        for bit in range(8):
            flipped = bytearray(FILE)
            flipped[at] ^= 1 << bit
            assert_refused(bytes(flipped))


def test_every_other_byte_in_the_header() -> None:
    # also those that leave the JSON the same, such as a tab for a space or \u00E4 for \u00e4
    for at in range(HEADER + 1):
        for byte in range(256):
            if byte != FILE[at]:
                assert_refused(FILE[:at] + bytes([byte]) + FILE[at + 1 :])


def test_every_truncation() -> None:
    for length in range(len(FILE)):
        assert_refused(FILE[:length])


@given(st.binary(min_size=1, max_size=20))
def test_appended_bytes(more: bytes) -> None:
    assert_refused(FILE + more)


@given(st.integers(0, len(FILE)), st.integers(0, len(FILE)), st.binary(max_size=30))
def test_any_part_replaced(first: int, last: int, by: bytes) -> None:
    altered = FILE[: min(first, last)] + by + FILE[max(first, last) :]
    if altered != FILE:
        assert_refused(altered)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["unskew", "format", "meta", "streams", "checksum"]), JSON)
def test_a_header_field_of_another_value_or_type(field: str, value: Any) -> None:
    header = json.loads(FILE[:HEADER])
    altered = {**header, field: value}
    if json.dumps(altered) != json.dumps(header):
        assert_refused(json.dumps(altered, sort_keys=True).encode() + FILE[HEADER:])


@given(JSON)
def test_any_json(value: Any) -> None:
    assert_refused(json.dumps(value).encode() + FILE[HEADER:])


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    assert_refused(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"[" * 100_000,
        b'{"unskew":' * 50_000,
        b"1" * 10_000,
        b"\xff\xfe{}",
        b"PAR1" * 10,
        b"null\n",
    ],
    ids=["empty", "newline", "deep list", "deep object", "long number", "utf-16", "parquet", "null"],
)
def test_what_is_not_a_file_of_unskew(data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match="some/file: not a file of unskew"):
        read(data)


def test_another_kind() -> None:
    with pytest.raises(UnreadableFileError, match="some/file: a table of unskew where a plan is expected"):
        decode(FILE, "plan", 3, "some/file")


def test_a_newer_format() -> None:
    with pytest.raises(
        UnreadableFileError, match=r"some/file: table format 3 is newer .*\(2\): upgrade unskew"
    ):
        decode(FILE, "table", 2, "some/file")
    assert decode(FILE, "table", 4, "some/file")[0] == META


def saved_objects(folder: Path) -> list[tuple[Any, Path]]:
    histogram = Histogram.from_counts({"a": 5, "b": 3}, buckets=8)
    plan = Plan.make(histogram, 2, "hash", RoutingTable.hashed(2, 8))
    objects: list[Any] = [histogram, plan.table, plan]
    paths = [folder / type(thing).__name__ for thing in objects]
    for thing, path in zip(objects, paths, strict=True):
        thing.save(path)
    return list(zip(objects, paths, strict=True))


def test_what_is_saved_names_its_file_when_damaged(tmp_path: Path) -> None:
    for thing, path in saved_objects(tmp_path):
        data = path.read_bytes()
        for damaged in (
            b"",
            data[:-1],
            data + b"x",
            data[:50] + b"#" + data[51:],
            data[:-9] + b"#" + data[-8:],
        ):
            path.write_bytes(damaged)
            with pytest.raises(UnreadableFileError, match=str(path)):
                type(thing).load(path)


def test_one_kind_is_not_taken_for_another(tmp_path: Path) -> None:
    saved = saved_objects(tmp_path)
    for thing, _ in saved:
        for stranger, path in saved:
            if type(stranger) is not type(thing):
                with pytest.raises(UnreadableFileError, match="is expected"):
                    type(thing).load(path)


def test_a_missing_file_is_the_usual_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Plan.load(tmp_path / "nowhere")


@pytest.mark.parametrize("thing", [Histogram.from_counts({"a": 1}), RoutingTable.hashed(2, 8)])
def test_another_hash_is_refused(thing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    thing.save(path)
    monkeypatch.setattr(files, "HASH_NAME", "xxhash128")
    with pytest.raises(UnreadableFileError, match=r"file: made with the hash xxhash64, not xxhash128"):
        type(thing).load(path)


class TestWrite:
    def test_replaces_a_file_and_leaves_nothing_else(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        for data in (b"old", b"new"):
            files.write(path, data)
            assert path.read_bytes() == data
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
    @pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
    def test_an_error_leaves_the_old_file(
        self, step: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file"
        files.write(path, b"old")

        def fail(*_: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(step, fail)
            with pytest.raises(type(error)):
                files.write(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]

    def test_the_data_is_on_disk_before_its_name_and_the_name_before_the_return(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, steps = tmp_path / "file", []

        def fsync(handle: int) -> None:
            is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
            steps.append(("folder" if is_folder else "data", path.exists()))

        monkeypatch.setattr(os, "fsync", fsync)
        files.write(path, b"data")
        assert steps == [("data", False), ("folder", True)]

    @pytest.mark.parametrize("step", ["open", "fsync"])
    def test_a_file_system_that_cannot_sync_folders_is_tolerated(
        self, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._fail_for_folders(step, errno.EINVAL, monkeypatch)
        files.write(tmp_path / "file", b"data")
        assert (tmp_path / "file").read_bytes() == b"data"

    def test_a_disk_that_fails_while_a_folder_is_synced_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._fail_for_folders("fsync", errno.EIO, monkeypatch)
        with pytest.raises(OSError, match="Input/output"):
            files.write(tmp_path / "file", b"data")

    def _fail_for_folders(self, step: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
        usual = getattr(os, step)

        def fail(target: Any, *more: Any) -> Any:
            if stat.S_ISDIR(os.stat(target).st_mode):  # noqa: PTH116 a path or a handle
                raise OSError(code, os.strerror(code))
            return usual(target, *more)

        monkeypatch.setattr(os, step, fail)

    def test_what_cannot_be_encoded_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        table = RoutingTable.hashed(2, 8)
        table.save(path)
        with pytest.raises(TypeError):
            table.with_version(object()).save(path)  # type: ignore[arg-type]
        assert RoutingTable.load(path) == table

    def test_others_may_read_it_as_any_file(self, tmp_path: Path) -> None:
        usual = tmp_path / "usual"
        usual.write_bytes(b"")
        files.write(tmp_path / "ours", b"")
        assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)

    def test_a_long_name(self, tmp_path: Path) -> None:
        path = tmp_path / ("x" * 255)
        files.write(str(path), b"data")
        assert path.read_bytes() == b"data"

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            files.write(tmp_path / "no" / "file", b"data")


def test_numpy_numbers_can_be_saved(tmp_path: Path) -> None:
    histogram = Histogram.from_keys(["a"], buckets=8, capacity=np.int64(4))
    histogram.save(tmp_path / "h")
    assert Histogram.load(tmp_path / "h").capacity == 4
    table = RoutingTable.build(np.int64(2), [0, 1], version=np.int64(7))
    table.save(tmp_path / "t")
    assert RoutingTable.load(tmp_path / "t") == table
