"""Measuring a few of the files of a large table, where they tell as much about its keys as all of them.

A sample has to decode the key of every row that it passes over, so it costs a share of the data however few rows it
takes. Where a DataFrame only filters and computes columns of one table of many files, Spark need not open most of them:
the files whose names have the lowest hashes are a random choice that Spark's own file listing can make, by a filter on
the hidden column `_metadata`. The rows of a file stand for those of the files that were left out.

That is only as good as the files are alike. A table that was sorted, bucketed, or written hour by hour may have other
keys in every file. So the keys of the files that were read are compared (`unlikeness`, `clustering`), and if they
differ by more than chance explains, all files are measured after all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from pyspark.errors import PySparkException

from unskew.core.hashing import Hashes, hash_keys
from unskew.core.histogram import Floats
from unskew.spark.explained import Explained, Node, explained
from unskew.spark.settings import setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME, SIZE = "xxhash64(_metadata.file_name)", "_metadata.file_size"
"""SQL terms: the file of a row, and its bytes."""

_FEWEST = 8
"""Files to read: the average of so many is a third as uncertain as one of them."""

_SHARE, _BYTES = 1 / 8, 4 << 30
"""Files to read if they have no more bytes than that: the more files, the less easily one with keys of its own is
missed. A key that is missed is placed by its hash, as Spark would."""

_WORTH_LEAVING_OUT = 4
"""Unless the table has so many times the files to read, all are read."""

_BYTES_PER_ROW = 64
"""Of a file, for each row that is wanted: a generous guess, since too few rows mean reading all files after all."""

_ROWS = 4
"""How many rows to read for each one of a budget, which is what a sample of all files would be worth."""

_GROUPS = 64
"""Keys are compared in so many groups by their hash, so that a file has several rows of each."""

_ALIKE = 2.0
"""How far the files may differ, in units of what chance explains. A share that varies by a tenth between files adds
0.8 with 80 rows to a group; and the mean of eight files is then known to a thirtieth."""

_CLUSTERED = 2.0
"""How many times as often as by chance two records of a light key may be in the same file."""

_PRUNED = re.compile(r"PartitionFilters: \[[^\]]")
"""In the text of a scan: only some folders of the table are read."""

_PAIRS = 50
"""Fewer pairs of records with the same key say nothing."""


@dataclass(frozen=True)
class FewFiles:
    """The files to read of one table: those whose names have a hash of at most `highest`."""

    hashes: Hashes
    highest: int
    every: int
    bytes: float | None

    @classmethod
    def of(cls, df: DataFrame, budget: int) -> FewFiles | None:
        """Those that are worth reading for a sample of so many rows; None if all have to be read."""
        plan = explained(df)
        table = _table(plan)
        if plan is None or table is None or not table.bytes or "_metadata" in map(str.lower, df.columns):
            return None
        # which files are left of a table that is read in part is not known before it is read
        if any(_PRUNED.search(node.text) for node in plan.physical.walk()):
            return None
        needed = _ROWS * budget * _BYTES_PER_ROW
        if table.bytes < _WORTH_LEAVING_OUT * needed:
            return None
        try:
            files = df.inputFiles()
        except PySparkException:
            return None
        share = max(needed / table.bytes, min(_SHARE, _BYTES / table.bytes))
        wanted = max(_FEWEST, int(np.ceil(len(files) * share)))
        if len(files) < _WORTH_LEAVING_OUT * wanted:
            return None
        hashes = np.sort(hash_keys([_name(file) for file in files]))
        highest = int(hashes[wanted - 1])
        few = hashes[hashes <= highest]
        # files of one name in many folders are chosen together, maybe all of them
        if len(files) < _WORTH_LEAVING_OUT * len(few):
            return None
        # without statistics Spark knows the bytes of the files, or a multiple of them
        factor = setting(df.sparkSession, "spark.sql.sources.fileCompressionFactor")
        known = not table.rows and factor in ("", "1.0", "1")
        chosen = cls(few, highest, len(files), table.bytes if known else None)
        return chosen if chosen.can_be_told(df) else None

    def rows(self, df: DataFrame) -> DataFrame:
        """The rows in these files."""
        return df.where(f"{NAME} <= {self.highest}L")

    def can_be_told(self, df: DataFrame) -> bool:
        """Whether Spark tells which file a row comes from: not behind a view, nor beside a column `_metadata`."""
        try:
            _ = self.rows(df).selectExpr(NAME, SIZE).schema  # Connect analyses it only when it is asked
        except PySparkException:
            return False
        return True

    def scale(self, files: Hashes, sizes: NDArray[np.int64]) -> float:
        """How many rows a row in these files stands for; the file and its size of every sampled row are given."""
        by_number = self.every / len(self.hashes)
        _, first = np.unique(files, return_index=True)
        if self.bytes is None or len(first) < len(self.hashes):
            return by_number
        by_bytes = self.bytes / float(sizes[first].sum())
        # the size in a catalog may be that of long ago
        return by_bytes if by_number / 2 < by_bytes < by_number * 2 else by_number

    def trusted(self, files: Hashes, keys: Hashes, stand_for: Floats, budget: int) -> bool:
        """Whether a sample of these files may stand for the table: enough rows, from files that are alike."""
        if float(stand_for.sum()) < budget or not np.isin(files, self.hashes).all():
            return False
        # a filter may leave rows in a few of them only
        if len(np.unique(files)) < _FEWEST:
            return False
        return unlikeness(files, keys) <= _ALIKE and clustering(files, keys) <= _CLUSTERED


def unlikeness(files: Hashes, keys: Hashes) -> float:
    """How much the keys of files differ, in units of what chance explains; 1 if only chance makes them differ.

    The statistic of Pearson's test of homogeneity over its degrees of freedom, with the keys in groups by their hash.

    >>> random = np.random.default_rng(0)
    >>> keys, files = random.integers(1000, size=20_000), np.repeat(np.arange(20), 1000)
    >>> round(unlikeness(files, keys), 1), unlikeness(files, np.sort(keys)) > 5
    (1.0, True)
    """
    _, file = np.unique(files, return_inverse=True)
    group = keys & (_GROUPS - 1)
    table = np.zeros((int(file.max(initial=-1)) + 1, _GROUPS))
    np.add.at(table, (file.reshape(-1), group), 1.0)
    table = table[:, table.any(axis=0)]
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom <= 0:
        # one key group, or one file: nothing to compare
        return 1.0 if table.shape[0] > 1 else np.inf
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    return float(((table - expected) ** 2 / expected).sum()) / freedom


def clustering(files: Hashes, keys: Hashes) -> float:
    """How many times as often as by chance two records of one key are in the same file; 1 if there are too few pairs.

    Keys that are in half of the files or more are left out: they would hide that each other key is in one.

    >>> random = np.random.default_rng(0)
    >>> keys, files = random.integers(10_000, size=20_000), np.repeat(np.arange(20), 1000)
    >>> round(clustering(files, keys)), round(clustering(files, np.sort(keys)))
    (1, 20)
    """
    _, file, rows_of_file = np.unique(files, return_inverse=True, return_counts=True)
    _, key = np.unique(keys, return_inverse=True)
    places, here = np.unique(key.reshape(-1) * len(rows_of_file) + file.reshape(-1), return_counts=True)
    of_key = places // max(len(rows_of_file), 1)
    light = np.bincount(of_key) < 0.5 * len(rows_of_file)
    within, pairs = _pairs(here[light[of_key]]), _pairs(np.bincount(of_key, here)[light])
    if pairs < _PAIRS:
        return 1.0
    by_chance = _pairs(rows_of_file) / _pairs(np.array([len(files)]))
    # a row of each file: nothing to compare
    return within / pairs / by_chance if by_chance else np.inf


def _pairs(counts: NDArray[np.int64] | Floats) -> float:
    """How many pairs can be formed within groups of these sizes."""
    return float((counts * (counts - 1.0)).sum()) / 2


def _table(plan: Explained | None) -> Node | None:
    """The only table that the rows come from, if they are but filtered and computed from."""
    if plan is None:
        return None
    table = plan.logical.below(("Project", "Filter"))
    return table if table.name == "Relation" else None


def _name(path: str) -> str:
    """The name of a file, which the column `_metadata` has as it is on disk, from its address."""
    return unquote(re.split(r"[/\\]", path)[-1])
