"""The columns of a slot's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.core.hashing import Hashes
from unskew.streaming.storage.columns import one_array
from unskew.streaming.storage.key_groups import window_ids
from unskew.streaming.storage.schemas import pack_schema, unpack_schema

ID, HASH, LIVE, WINDOW, DEADLINE = "id", "hash", "live", "window", "deadline"


@dataclass(frozen=True)
class Layout:
    """The columns of a state row: its key, its window if it has one, the operator's state, and when it expires.

    `deadline` is in milliseconds, of the watermark or of the clock, depending on the operator.
    """

    key: pa.Schema
    state: pa.Schema
    windowed: bool = False
    expires: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a run."""
        fields = [pa.field(ID, pa.int64()), pa.field(HASH, pa.int64()), pa.field(LIVE, pa.bool_())]
        fields += [pa.field(f"key.{i}", f.type) for i, f in enumerate(self.key)]
        if self.windowed:
            fields.append(pa.field(WINDOW, pa.int64()))
        fields += [pa.field(f"state.{f.name}", f.type) for f in self.state]
        if self.expires:
            fields.append(pa.field(DEADLINE, pa.int64()))
        return pa.schema(fields)

    @property
    def key_columns(self) -> list[str]:
        """The columns that tell rows apart: the key's, and the window."""
        return [f"key.{i}" for i in range(len(self.key))] + ([WINDOW] if self.windowed else [])

    def describe(self) -> dict[str, Any]:
        """The layout as a checkpoint stores it."""
        return {
            "schemas": {"key": pack_schema(self.key), "state": pack_schema(self.state)},
            "windowed": self.windowed,
            "expires": self.expires,
        }

    @classmethod
    def restore(cls, description: Mapping[str, Any]) -> Layout:
        """The layout that `describe` described."""
        key, state = (unpack_schema(description["schemas"][name]) for name in ("key", "state"))
        return cls(key, state, description["windowed"], description["expires"])

    @property
    def values(self) -> list[str]:
        """The columns of the operator's state."""
        return [f"state.{f.name}" for f in self.state]

    def ids(self, rows: pa.Table) -> Hashes:
        """The number that rows are sorted and looked up by."""
        hashes: Hashes = rows[HASH].to_numpy()
        return window_ids(hashes, rows[WINDOW].to_numpy()) if self.windowed else hashes

    def rows(self, columns: dict[str, Any], size: int) -> pa.Table:
        """Live rows from their columns; missing columns are null."""
        table = {name: columns.get(name, pa.nulls(size, t)) for name, t in types_of(self.schema)}
        table[LIVE] = pa.array(np.ones(size, np.bool_))
        table[ID] = pa.array(self.ids(pa.table({n: table[n] for n in [HASH, WINDOW] if n in table})))
        return pa.table(table, schema=self.schema)

    def keys_of(self, rows: pa.Table) -> list[pa.Array]:
        """The columns that tell rows apart, each as one array."""
        return [one_array(rows[name]) for name in self.key_columns]


def types_of(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """The names and types of the columns."""
    return [(f.name, f.type) for f in schema]
