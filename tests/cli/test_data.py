"""The options of commands that read data."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.cli.console import check_target
from unskew.cli.data import parse_sample


def test_all_means_every_record_and_auto_is_left_to_measure() -> None:
    assert [parse_sample(text) for text in ("auto", "all", "0.1", "5000")] == ["auto", None, 0.1, 5000]
    with pytest.raises(ValueError, match=r"--sample most: write auto, all, a share such as 0\.1"):
        parse_sample("most")


def test_a_target_on_another_file_system_is_not_looked_for_here(tmp_path: Path) -> None:
    check_target("s3a://bucket/folder/users.plan", "--out")
    check_target(f"file://{tmp_path}/users.plan", "--out")
    with pytest.raises(ValueError, match=r"--out .*: there is no folder .*missing"):
        check_target(f"file://{tmp_path}/missing/users.plan", "--out")
