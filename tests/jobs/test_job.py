from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import unskew
from tests.jobs.files import BATCH, STREAM, changed
from unskew.jobs.aggregates import AggregateSettings
from unskew.jobs.job import Job, SparkSettings, parse_job, read_job
from unskew.jobs.operator import OperatorSettings
from unskew.jobs.placement import PlacementSettings
from unskew.jobs.sink import SinkSettings, build_sink
from unskew.jobs.source import SourceSettings
from unskew.streaming.driver.sinks import Kafka, Memory, Parquet, console

FULL_STREAM = """
mode = "stream"
name = "clicks"
checkpoint = "state/clicks"
trigger = "10 seconds"

[source]
format = "kafka"
servers = "a:9092,b:9092"
topic = "clicks"
schema = "user string, page string, amount double, at timestamp"
columns = { hour = "hour(at)" }
options = { startingOffsets = "earliest", maxOffsetsPerTrigger = 1000 }
time = "at"
watermark = "10 minutes"

[operator]
key = ["user", "hour"]
window = "5 minutes"
slide = "1 minute"
emit = "changed"

[operator.aggregates]
n = "count"
pages = { count = "page" }
last = { last = "page", by = "at" }
top = { top_k = "page", k = 5 }
kinds = { approx_distinct = "page" }

[sink]
function = "out:send"
persist = true

[plan]
slots = 8
max_slots = 16
planner = "kip"
options = { epsilon = 0.01 }
buckets = 512
file = "first.plan"

[policy]
patience = 3
tolerance = 0.05

[budget]
share = 0.1

[scaling]
rule = "utilisation"
target = 0.5
interval = 10

[spark]
master = "local[4]"
conf = { "spark.driver.memory" = "2g" }
"""


def test_every_setting_of_a_stream(tmp_path: Path) -> None:
    file = tmp_path / "clicks.toml"
    file.write_text(FULL_STREAM)
    assert read_job(file) == Job(
        mode="stream",
        name="clicks",
        checkpoint="state/clicks",
        trigger="10 seconds",
        source=SourceSettings(
            "kafka",
            servers="a:9092,b:9092",
            topic="clicks",
            schema="user string, page string, amount double, at timestamp",
            columns={"hour": "hour(at)"},
            options={"startingOffsets": "earliest", "maxOffsetsPerTrigger": 1000},
            time="at",
            watermark="10 minutes",
        ),
        operator=(
            OperatorSettings(
                ("user", "hour"),
                (
                    AggregateSettings("n", "count"),
                    AggregateSettings("pages", "count", "page"),
                    AggregateSettings("last", "last", "page", {"by": "at"}),
                    AggregateSettings("top", "top_k", "page", {"k": 5}),
                    AggregateSettings("kinds", "approx_distinct", "page"),
                ),
                window="5 minutes",
                slide="1 minute",
                emit="changed",
            ),
        ),
        sink=SinkSettings(function="out:send", persist=True),
        plan=PlacementSettings(8, 16, "kip", {"epsilon": 0.01}, 512, "first.plan"),
        policy=unskew.Policy(patience=3, tolerance=0.05),
        budget=unskew.Budget(0.1),
        scaling=unskew.Utilisation(0.5, 10),
        spark=SparkSettings("local[4]", {"spark.driver.memory": "2g"}),
        file=file,
    )


def test_every_setting_of_a_batch_job() -> None:
    operator = {"key": "user", "apply": "a:f", "merge": "a:g", "output": "user string, n long"}
    job = parse_job(
        {
            "mode": "batch",
            "source": {"format": "text", "path": "in", "columns": {"user": "value"}},
            "operator": operator,
            "sink": {"format": "csv", "path": "out", "mode": "overwrite", "options": {"header": True}},
            "plan": {"sample": 0.5, "weight": "cost", "planner": "dkg-pkg"},
        }
    )
    assert job.operator == (
        OperatorSettings(("user",), apply="a:f", merge="a:g", output="user string, n long"),
    )
    assert job.sink == SinkSettings("csv", path="out", mode="overwrite", options={"header": True})
    assert job.plan == PlacementSettings(planner="dkg-pkg", sample=0.5, weight="cost")


CHAINED_UPDATE = {
    "key": "region",
    "update": "a:f",
    "output": "region string, tag string",
    "state": "n long",
}


def test_chained_operators() -> None:
    update = CHAINED_UPDATE
    count = {"key": "tag", "aggregates": {"n": "count"}}
    job = parse_job(changed(STREAM, "operator", [update, count]))
    assert [operator.key for operator in job.operator] == [("region",), ("tag",)]
    assert parse_job(changed(STREAM, "operator", [{**update, "ttl": "1 day", "expired": "a:g"}]))


def test_a_fixed_table_and_the_load_range() -> None:
    assert parse_job(STREAM).policy == unskew.Policy()
    assert parse_job(changed(STREAM, "policy.fixed", True)).policy is None
    assert parse_job(changed(STREAM, "policy.fixed", False)).policy == unskew.Policy()
    scaling = {"rule": "load-range", "lower": 10, "upper": 20}
    assert parse_job(changed(STREAM, "scaling", scaling)).scaling == unskew.LoadRange(10, 20)


def test_setting_one_number_of_the_policy_leaves_the_others() -> None:
    policy = parse_job(changed(STREAM, "policy.horizon", 100)).policy
    assert policy == replace(unskew.Policy(), horizon=100)


def test_a_policy_does_not_go_with_joint_planning() -> None:
    chain = changed(STREAM, "operator", [CHAINED_UPDATE, {"key": "tag", "aggregates": {"n": "count"}}])
    assert parse_job(chain).is_planned_jointly
    assert "[policy] chained operators are planned together" in mistake(changed(chain, "policy.horizon", 100))
    assert parse_job(changed(chain, "policy.fixed", True)).policy is None
    each = changed(changed(chain, "policy.horizon", 100), "plan.planner", "keel")
    assert parse_job(each).policy == replace(unskew.Policy(), horizon=100)


@pytest.mark.parametrize(
    ("settings", "sink"),
    [
        ({"format": "parquet", "path": "/out"}, Parquet("/out")),
        ({"format": "parquet", "path": "s3://bucket/out:1"}, Parquet("s3://bucket/out:1")),
        ({"format": "kafka", "servers": "a:9092,b:9092", "topic": "x/y"}, Kafka("a:9092,b:9092", "x/y")),
        ({"format": "memory", "name": "totals"}, Memory("totals")),
        ({"format": "console"}, console),
    ],
)
def test_the_sink_of_a_stream_is_built_from_its_table(settings: dict[str, Any], sink: object) -> None:
    assert build_sink(parse_job(changed(STREAM, "sink", settings))) == sink


def test_a_batch_job_sends_to_the_same_kafka_and_console() -> None:
    kafka = {"format": "kafka", "servers": "a:9092", "topic": "x"}
    assert build_sink(parse_job(changed(BATCH, "sink", kafka))) == Kafka("a:9092", "x")
    assert build_sink(parse_job(changed(BATCH, "sink", {"format": "console"}))) is console


def test_paths_start_at_the_job_file(tmp_path: Path) -> None:
    job = replace(parse_job(STREAM), file=tmp_path / "job.toml")
    assert job.path("in") == str(tmp_path / "in")
    assert job.path("/data/in") == "/data/in"
    assert job.path("s3://data/in") == "s3://data/in"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("chekpoint", "x", "chekpoint: there is no such setting: did you mean 'checkpoint'? a job takes mode"),
        ("file", "x", "file: there is no such setting"),
        ("mode", "streams", "mode: there is no 'streams': did you mean 'stream'?"),
        ("source.formt", "x", "[source] formt: there is no such setting: did you mean 'format'?"),
        ("source.format", "jsn", "[source] format: there is no 'jsn': did you mean 'json'?"),
        ("operator.agregates", {}, "[operator] agregates: there is no such setting: did you mean 'aggregates'?"),
        ("operator.aggregates.n", "cuont", "[operator.aggregates] n: there is no 'cuont' of whole records: "
         "did you mean 'count'?"),
        ("operator.aggregates.n", {"summ": "x"}, "[operator.aggregates] n: name one aggregate: did you mean 'sum'?"),
        ("operator.aggregates.n", {"top_k": "x", "kk": 1}, "[operator.aggregates.n] kk: top_k has no such option: "
         "did you mean 'k'?"),
        ("operator.emit", "close", "[operator] emit: there is no 'close': did you mean 'closed'?"),
        ("sink.pth", "x", "[sink] pth: there is no such setting: did you mean 'path'?"),
        ("sink.format", "parket", "[sink] format: there is no 'parket': did you mean 'parquet'?"),
        ("plan.slot", 3, "[plan] slot: there is no such setting: did you mean 'slots'?"),
        ("plan.planner", "kipp", "[plan] planner: there is no planner 'kipp': did you mean 'kip'?"),
        ("plan.options", {"targt": 1}, "[plan.options] targt: there is no such setting: did you mean 'target'?"),
        ("policy.patiense", 3, "[policy] patiense: there is no such setting: did you mean 'patience'?"),
        ("policy.fixd", True, "[policy] fixd: there is no such setting: did you mean 'fixed'?"),
        ("budget.shar", 0.1, "[budget] shar: there is no such setting: did you mean 'share'?"),
        ("scaling.rul", "x", "[scaling] rul: there is no such setting: did you mean 'rule'?"),
        ("scaling.rule", "load-rang", "[scaling] rule: there is no 'load-rang': did you mean 'load-range'?"),
        ("spark.mastr", "x", "[spark] mastr: there is no such setting: did you mean 'master'?"),
        ("trigger", "availablenow", "trigger: write 'availableNow'"),
    ],
)  # fmt: skip
def test_a_misspelt_name_is_answered_with_the_closest_one(path: str, value: Any, message: str) -> None:
    assert message in mistake(changed(STREAM, path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("mode", None, "mode: this setting is missing"),
        ("checkpoint", None, "checkpoint: this setting is missing"),
        ("source", None, "source: this setting is missing"),
        ("operator", None, "operator: this setting is missing"),
        ("sink", None, "sink: this setting is missing"),
        ("source.format", None, "[source] format: this setting is missing"),
        ("source.path", None, "[source] path: this setting is missing, and json needs it"),
        ("source.schema", None, "[source] schema: a stream of files needs it"),
        ("source.topic", "x", "[source] topic: json does not take this setting"),
        ("source.format", "rate", "[source] path: rate does not take this setting"),
        ("source.watermark", "1 day", "[source] watermark: it needs time"),
        ("operator.key", None, "[operator] key: this setting is missing"),
        ("operator.aggregates", None, "[operator] aggregates: say what to do"),
        ("operator.aggregates", {}, "[operator] aggregates: name at least one"),
        ("operator.update", "a:f", "not both aggregates and update"),
        ("operator.state", "n long", "[operator] state: this does not go with aggregates"),
        ("operator.apply", "a:f", "[operator] apply: this is for mode = 'batch' only"),
        ("operator.aggregates.n", "sum", "write 'count', or { sum = '…' }"),
        ("operator.aggregates.n", {"sum": "a", "max": "b"}, "name one aggregate"),
        ("operator.aggregates.n", {"sum": "a", "by": "b"}, "it takes a column and nothing else"),
        ("operator.aggregates.n", {"last": "a"}, "last needs by"),
        ("operator.aggregates.n", 3, "[operator.aggregates] n: write a table"),
        ("operator", [], "operator: write at least one table"),
        ("operator", {"key": "u", "update": "a:f", "state": "n long"}, "[operator] output: update needs"),
        ("operator", {"key": "u", "update": "a:f", "output": "n long"}, "[operator] state: update needs"),
        (
            "operator",
            [{"key": "u", "aggregates": {"n": "count"}}, {"key": 3}],
            "[operator 2] key: write a name",
        ),
        ("sink.format", None, "[sink] format: name either"),
        ("sink.format", "csv", "[sink] format: a stream does not write csv"),
        ("sink.mode", "append", "[sink] mode: this is for mode = 'batch' only"),
        ("sink", {"format": "memory"}, "[sink] name: this setting is missing, and memory needs it"),
        ("sink", {"format": "memory", "name": "a b"}, "[sink] name: SQL must take it"),
        ("sink", {"function": "out"}, "[sink] function: write 'module:function'"),
        ("plan.sample", 0.1, "[plan] sample: this is for mode = 'batch' only"),
        ("plan.planner", "pkg", "[plan] planner: pkg splits keys"),
        ("plan.options", {"x": 1}, "[plan.options] x: there is no such setting"),
        ("plan", {"slots": 9, "buckets": 8}, "[plan] slots:"),
        ("plan", {"slots": 9, "max_slots": 8}, "[plan] max_slots: this is the most"),
        ("policy", {"fixed": True, "patience": 2}, "policy: a fixed table needs no other setting"),
        ("policy.patience", 0, "[policy] patience is a whole number"),
        ("budget.share", 2, "[budget] share is a part"),
        ("scaling", {"lower": 1}, "[scaling] rule: this setting is missing"),
        ("scaling", {"rule": "load-range", "lower": 1}, "[scaling] upper: this setting is missing"),
        ("trigger", "often", "trigger: write 'availableNow' or an interval like '10 seconds', not 'often'"),
    ],
)
def test_what_does_not_fit_a_stream(path: str, value: Any, message: str) -> None:
    assert message in mistake(changed(STREAM, path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("checkpoint", "x", "checkpoint: this is for mode = 'stream' only"),
        ("policy", {}, "policy: this is for mode = 'stream' only"),
        ("operator.state", "n long", "[operator] state: this is for mode = 'stream' only"),
        ("operator.window", "1 day", "[operator] window: this is for mode = 'stream' only"),
        ("operator.output", None, "[operator] output: apply needs"),
        ("source", {"format": "rate"}, "[source] format: rate never ends"),
        ("source.time", "at", "[source] time: this is for mode = 'stream' only"),
        ("sink", {"format": "memory", "name": "x"}, "[sink] format: a batch job does not write memory"),
        ("sink", {"format": "console", "mode": "append"}, "[sink] mode: this is for files only"),
        ("plan.sample", "most", "[plan] sample: write 'auto', 'all', a share"),
        ("plan.max_slots", 3, "[plan] max_slots: this is for mode = 'stream' only"),
        ("operator", {"key": "u", "aggregates": {"n": {"top_k": "x"}}}, "[operator.aggregates.n] top_k: this is for"),
        ("operator", [{"key": "u", "aggregates": {"n": "count"}}] * 2, "[operator 1] aggregates: only the last"),
        ("operator", [{"key": "u", "apply": "a:f", "merge": "a:g", "output": "u long"}] * 2, "[operator] merge:"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_batch_job(path: str, value: Any, message: str) -> None:
    assert message in mistake(changed(BATCH, path, value))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("checkpoint", "", "checkpoint: write text in quotes, not ''"),
        ("source", "in", "source: write a table, [source], not 'in'"),
        ("source.options", {"a": [1]}, "[source.options] a: write text, a number, true or false"),
        ("operator.key", [], "[operator] key: write a name in quotes or a list"),
        ("operator.aggregates.n", {"sum": 3}, "[operator.aggregates.n] sum: write text in quotes"),
        ("operator.aggregates.n", {"top_k": "x", "k": 0}, "[operator.aggregates.n] k: write a whole number"),
        ("plan.slots", True, "[plan] slots: write a whole number of at least 1, not True"),
        ("plan.slots", "8", "[plan] slots: write a whole number of at least 1, not '8'"),
        ("policy.hysteresis", "x", "[policy] hysteresis: write a number"),
        ("policy.fixed", 1, "[policy] fixed: write true or false"),
        ("sink.persist", "yes", "[sink] persist: write true or false"),
    ],
)
def test_a_value_of_another_kind(path: str, value: Any, message: str) -> None:
    assert message in mistake(changed(STREAM, path, value))


def test_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text("mode = stream")
    with pytest.raises(ValueError, match=r"job\.toml: Invalid value \(at line 1"):
        read_job(file)
    file.write_text("mode = 'stream'\nchekpoint = 'x'")
    with pytest.raises(ValueError, match=r"job\.toml: chekpoint: there is no such setting"):
        read_job(file)


def mistake(values: dict[str, Any]) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_job(values)
    return str(caught.value)
