"""Labels land in the partition of their slot."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.streaming.worker.slot_labels import slot_labels, spark_hash


def test_the_hash_is_that_of_spark() -> None:
    """Values that other engines test, because they must agree with Spark's `hash` of an int."""
    expected = {0: 933211791, 1: -559580957, -1: -1604776387, 0xDEADBEEF - 2**32: 141248195, 2: 1765031574}
    assert spark_hash(np.array(list(expected))).tolist() == list(expected.values())


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64, 200])
def test_the_label_of_each_slot_lands_in_its_partition(partitions: int) -> None:
    labels = slot_labels(partitions)
    assert len(set(labels)) == len(labels) == partitions
    assert (spark_hash(np.array(labels)).astype(np.int64) % partitions).tolist() == list(range(partitions))
