"""Rows as bytes: plain for a shuffle; for the state store, compressed and without what other columns tell.

A stored run is an Arrow stream. Its schema says in `unskew.run` what was left out: the id always, which follows from
the hash and the window, and the hash if it is Spark's hash of the key columns, as it is unless a type is hashed in a
way of its own. Without that mark a run is of format 1 or 2 and has all columns.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from unskew.core.hashing import Hashes, hash_keys
from unskew.streaming.storage.columns import Index, bounded_parts, one_array
from unskew.streaming.storage.layout import HASH, ID, Layout

_MARK = b"unskew.run"
_WITHOUT_ID, _WITHOUT_HASH = b"without id", b"without id and hash"
_WIDTHS = ("<u1", "<u2", "<u4", "<i8")

# For a shuffle speed counts. What is stored is kept for a hundred batches: there zstd pays, at its quickest level.
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")
_ZSTD = pa.Codec("zstd", compression_level=1)
_STORED = pa.ipc.IpcWriteOptions(compression=_ZSTD)


def encoded(table: pa.Table) -> bytes:
    """The rows as bytes for a shuffle."""
    return _stream(table, _LZ4)


def decoded(data: bytes) -> pa.Table:
    """What `encoded` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def encoded_run(run: pa.Table, layout: Layout) -> bytes:
    """A run as bytes for the state store."""
    hashes = _key_hashes(run, layout)
    if hashes is not None and np.array_equal(hashes, run[HASH].to_numpy()):
        rest, mark = run.drop_columns([ID, HASH]), _WITHOUT_HASH
    else:
        rest, mark = run.drop_columns([ID]), _WITHOUT_ID
    return _stream(rest.replace_schema_metadata({_MARK: mark}), _STORED)


def decoded_run(data: bytes, layout: Layout) -> pa.Table:
    """The run that `encoded_run` wrote, or an earlier unskew."""
    rest = decoded(data)
    mark = (rest.schema.metadata or {}).get(_MARK)
    if mark is None:
        return rest
    if mark not in (_WITHOUT_ID, _WITHOUT_HASH):
        raise RuntimeError(
            f"a run in the state store is marked {mark!r}: a newer unskew wrote it; upgrade unskew"
        )
    columns = {name: rest[name] for name in rest.column_names}
    if mark == _WITHOUT_HASH:
        hashes = _key_hashes(rest, layout)
        assert hashes is not None
        columns[HASH] = pa.chunked_array([pa.array(hashes)])
    known = pa.table({name: columns[name] for name in layout.schema.names if name in columns})
    columns[ID] = pa.chunked_array([pa.array(layout.ids(known))])
    return pa.table({name: columns[name] for name in layout.schema.names}, schema=layout.schema)


def encoded_counts(counts: Index) -> bytes:
    """Counts as bytes for the state store: as narrow as they are, compressed."""
    least, most = int(counts.min(initial=0)), int(counts.max(initial=0))
    width = next(w for w in _WIDTHS if np.iinfo(w).min <= least and most <= np.iinfo(w).max)
    data: bytes = _ZSTD.compress(counts.astype(width).tobytes(), asbytes=True)
    return bytes([_WIDTHS.index(width)]) + data


def decoded_counts(data: bytes, size: int) -> Index:
    """The `size` counts that `encoded_counts` wrote."""
    width = np.dtype(_WIDTHS[data[0]])
    plain = _ZSTD.decompress(data[1:], decompressed_size=size * width.itemsize, asbytes=True)
    return np.frombuffer(plain, width).astype(np.int64)


def _key_hashes(rows: pa.Table, layout: Layout) -> Hashes | None:
    """Spark's hash of the key columns; None for a type that unskew cannot hash."""
    names = [f"key.{i}" for i in range(len(layout.key))]
    if not names:
        return None
    try:
        parts = [
            hash_keys(_struct([one_array(part[name]) for name in names]))
            for part in bounded_parts(rows.select(names))
        ]
    except ValueError:
        return None
    return np.concatenate(parts)


def _struct(columns: list[pa.Array]) -> pa.Array:
    """The columns as one composite key; a single one as it is."""
    if len(columns) == 1:
        return columns[0]
    return pa.StructArray.from_arrays(columns, [f"_{i}" for i in range(len(columns))])


def _stream(table: pa.Table, options: pa.ipc.IpcWriteOptions) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for part in bounded_parts(table):  # each is compressed as a whole, in memory
            writer.write_table(part)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
