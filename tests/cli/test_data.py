"""The options of commands that read data."""

from __future__ import annotations

import pytest

from unskew.cli.data import parse_sample


def test_all_means_every_record_and_auto_is_left_to_measure() -> None:
    assert [parse_sample(text) for text in ("auto", "all", "0.1", "5000")] == ["auto", None, 0.1, 5000]
    with pytest.raises(ValueError, match=r"--sample most: write auto, all, a share such as 0\.1"):
        parse_sample("most")
