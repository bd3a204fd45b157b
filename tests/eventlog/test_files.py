from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from unskew.eventlog.files import lines, log_files

TEXT = b"".join(b'{"Event":"SparkListenerTaskEnd","Task":%d}\n' % i for i in range(20_000))


def compressed(path: Path, codec: str) -> Path:
    with pa.CompressedOutputStream(str(path), codec) as out:
        out.write(TEXT)
    return path


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_the_content_says_how_a_file_is_compressed(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "app.inprogress"
    if codec == "none":
        path.write_bytes(TEXT)
    else:
        compressed(path, codec)
    assert list(lines(path)) == TEXT.splitlines()


def test_consecutive_compressed_frames_are_one_file(tmp_path: Path) -> None:
    # Spark ends a frame whenever it flushes, so that a log can be read while it is being written.
    half = len(TEXT) // 2
    path = tmp_path / "app"
    path.write_bytes(gzip.compress(TEXT[:half]) + gzip.compress(TEXT[half:]))
    assert list(lines(path)) == TEXT.splitlines()


def test_the_beginning_of_a_truncated_file_is_read(tmp_path: Path) -> None:
    whole = compressed(tmp_path / "app.zstd", "zstd").read_bytes()
    cut = tmp_path / "cut.zstd"
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    *read, last = lines(cut)
    assert len(read) > 5_000
    assert read == TEXT.splitlines()[: len(read)]
    assert TEXT.splitlines()[len(read)].startswith(last)


@pytest.mark.parametrize(
    ("start", "codec"), [(b"LZ4Block%48", "lz4"), (b"\x82SNAPPY\x00\x00", "snappy"), (b"ZV\x01q\xa8", "lzf")]
)
def test_other_codecs_are_named(start: bytes, codec: str, tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(start + b"x" * 100)
    with pytest.raises(ValueError, match=rf"compressed with {codec}.*codec=zstd"):
        list(lines(path))


def test_rolled_files_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"events_{i}_app-1.zstd" for i in (1, 2, 10)]
    for name in ["appstatus_app-1.inprogress", *reversed(names)]:
        (tmp_path / name).touch()
    assert [file.name for file in log_files(tmp_path)] == names


def test_a_compacted_file_stands_for_those_before_it(tmp_path: Path) -> None:
    for name in ("events_1_app", "events_2_app", "events_2_app.compact", "events_3_app"):
        (tmp_path / name).touch()
    assert [file.name for file in log_files(tmp_path)] == ["events_2_app.compact", "events_3_app"]


def test_a_path_that_is_not_a_log_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gone: there is no such file"):
        log_files(tmp_path / "gone")
    with pytest.raises(ValueError, match="an empty folder"):
        log_files(tmp_path)
    (tmp_path / "app-1").touch()
    with pytest.raises(ValueError, match="name one of them, such as app-1"):
        log_files(tmp_path)
    with pytest.raises(ValueError, match=r"s3a://bucket/app: .*copy the log to this machine"):
        log_files("s3a://bucket/app")
