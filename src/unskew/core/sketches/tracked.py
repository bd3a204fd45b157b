"""What a sketch tracks: some keys, each with a lower and an upper bound of its weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.core.hashing import Hashes
from unskew.core.histogram import Floats
from unskew.core.sketches.batch import Batch, first_rows, numbered

Rows = NDArray[np.int64]
Keep = Callable[[Floats, Hashes], Rows]
"""Which rows stay, in ascending order, given every row's upper bound and hash."""


@dataclass(frozen=True, eq=False)
class Tracked:
    """Keys with bounds of their weight: `lower` ≤ true weight ≤ `upper` = `lower` + `errors`.

    `keys` holds one key value for each hash where the sketch was given key values, else None.
    """

    hashes: Hashes
    lower: Floats
    errors: Floats
    keys: pa.Array | None = None

    @classmethod
    def nothing(cls) -> Tracked:
        """No keys at all."""
        return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    def __len__(self) -> int:
        return len(self.hashes)

    def __repr__(self) -> str:
        return f"Tracked({len(self)} keys, weight {self.lower.sum():g} to {self.upper.sum():g})"

    @property
    def upper(self) -> Floats:
        """No key weighs more than this."""
        return self.lower + self.errors

    @property
    def key_type(self) -> pa.DataType | None:
        """The type of the key values, where there are any."""
        return None if self.keys is None else self.keys.type

    def rows(self, rows: Rows) -> Tracked:
        """Only the given rows, in the given order."""
        keys = None if self.keys is None else self.keys.take(pa.array(rows))
        return Tracked(self.hashes[rows], self.lower[rows], self.errors[rows], keys)

    def heaviest_first(self) -> Tracked:
        """In the order of `upper`; equal ones by hash."""
        return self.rows(np.lexsort((self.hashes, -self.upper)))

    def reaching(self, threshold: float, total: float) -> Tracked:
        """The keys whose share of `total` may be `threshold` or more, heaviest first."""
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"threshold is a share of the total, between 0 and 1, not {threshold}")
        # Dividing rounds a share as the caller's literal was rounded: 3 of 30 is 0.1.
        return self.rows(np.flatnonzero(self.upper / (total or 1.0) >= threshold)).heaviest_first()

    def plus(self, batch: Batch, absent: float, keep: Keep) -> Tracked:
        """With the records of `batch` counted.

        `absent` bounds the weight that a key not tracked so far may have had before the batch. Key values
        are copied only for the rows that `keep` keeps.
        """
        self._check_keys(batch.keys, len(batch))
        hashes, codes = numbered(self.hashes, batch.hashes)
        lower = batch.weight_by(codes, len(hashes))
        lower[: len(self)] += self.lower
        errors = np.concatenate([self.errors, np.full(len(hashes) - len(self), absent)])
        rows = keep(lower + errors, hashes)
        keys = self._keys_with(batch.keys, codes, rows)
        return Tracked(hashes[rows], lower[rows], errors[rows], keys)

    def merged(self, other: Tracked, absent: float, other_absent: float, keep: Keep) -> Tracked:
        """Both together; what one side does not track may weigh up to that side's `absent` there."""
        other._check_keys(self.keys, len(self))
        hashes, codes = numbered(self.hashes, other.hashes)
        lower, errors = np.zeros(len(hashes)), np.full(len(hashes), other_absent)
        lower[codes] = other.lower
        errors[codes] = other.errors
        lower[: len(self)] += self.lower
        errors[: len(self)] += self.errors
        errors[len(self) :] += absent
        rows = keep(lower + errors, hashes)
        keys = self._keys_with(other.keys, codes, rows)
        return Tracked(hashes[rows], lower[rows], errors[rows], keys)

    def _check_keys(self, keys: pa.Array | None, count: int) -> None:
        if not len(self) or not count:
            return
        if (keys is None) != (self.keys is None):
            sides = ("the sketch", "the records")
            with_keys, without = sides if keys is None else reversed(sides)
            raise ValueError(
                f"there are key values in {with_keys} but not in {without}: pass keys in every call or in none"
            )
        if keys is not None and not keys.type.equals(self.key_type):
            raise ValueError(
                f"the keys have type {keys.type}, but the sketch tracks {self.key_type}: cast them"
            )

    def _keys_with(self, keys: pa.Array | None, codes: NDArray[np.int32], rows: Rows) -> pa.Array | None:
        """The key values of `rows`: first those tracked here, then those of `keys` with the row's code."""
        ours, theirs = rows[rows < len(self)], rows[rows >= len(self)]
        parts = []
        if self.keys is not None and len(ours):
            parts.append(self.keys.take(pa.array(ours)))
        if keys is not None and len(theirs):
            parts.append(keys.take(pa.array(first_rows(codes)[theirs])))
        if parts:
            return pa.concat_arrays(parts)
        values = self.keys if self.keys is not None else keys
        return None if values is None else values[:0]
