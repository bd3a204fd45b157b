"""What `unskew run --check` prints is what runs."""

from __future__ import annotations

from typing import Any, cast

import pytest

import unskew
from tests.jobs.files import STREAM, changed
from unskew.jobs.build import start
from unskew.jobs.job import parse_job
from unskew.jobs.outline import outline


class StartRecorder:
    """Stands in for an operation: keeps what `start` is called with, and starts nothing."""

    def start(self, _sink: object, **options: Any) -> None:
        self.options = options


@pytest.mark.parametrize("policy", [None, {}, {"horizon": 100}, {"patience": 3, "tolerance": 0.05}])
def test_the_policy_that_is_printed_is_the_one_that_starts(policy: dict[str, Any] | None) -> None:
    job = parse_job(STREAM if policy is None else changed(STREAM, "policy", policy))
    recorder = StartRecorder()
    start(job, cast(Any, recorder))
    expected = unskew.Policy(**(policy or {}))
    assert recorder.options["policy"] == expected
    printed = ", ".join(f"{name} {value}" for name, value in vars(expected).items())
    assert dict(outline(job))["policy"] == printed


def test_a_fixed_table_and_joint_planning_have_no_policy() -> None:
    assert dict(outline(parse_job(changed(STREAM, "policy.fixed", True))))["policy"] == "the table is fixed"
    update = {"key": "user", "update": "a:f", "output": "user string, tag string", "state": "n long"}
    chain = changed(STREAM, "operator", [update, {"key": "tag", "aggregates": {"n": "count"}}])
    rows = dict(outline(parse_job(changed(chain, "plan.options", {"every": 5}))))
    assert rows["policy"] == "chained operators are planned together, every 5"
    assert rows["then"] == "by tag: n = count()"


@pytest.mark.parametrize(
    ("sink", "description"),
    [
        ({"format": "parquet", "path": "out"}, "parquet files in out"),
        ({"format": "kafka", "servers": "a:9092", "topic": "x"}, "the topic x of a:9092"),
        ({"format": "memory", "name": "totals"}, "the view global_temp.totals"),
        ({"format": "console"}, "console"),
        ({"function": "out:send"}, "the function out:send"),
    ],
)
def test_every_sink_is_described(sink: dict[str, Any], description: str) -> None:
    assert dict(outline(parse_job(changed(STREAM, "sink", sink))))["sink"] == description
