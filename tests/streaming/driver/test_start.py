"""What starting a query does to the session, and what it refuses."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from unskew.streaming.driver.checkpoint import Checkpoint
from unskew.streaming.driver.resolve import _trigger
from unskew.streaming.driver.sinks import Memory, Parquet
from unskew.streaming.driver.start import _begin_sink, _configured
from unskew.streaming.storage.lease import Lease
from unskew.streaming.storage.ledger import Ledger


class Session:
    """The settings of a session; slow, so that threads meet."""

    def __init__(self) -> None:
        self.conf = self
        self.settings = {"spark.sql.shuffle.partitions": "200"}

    def get(self, name: str, default: str | None) -> str | None:
        time.sleep(0.001)
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        time.sleep(0.001)
        self.settings[name] = value

    def unset(self, name: str) -> None:
        del self.settings[name]


def test_queries_that_start_at_once_leave_the_settings_as_they_were() -> None:
    session: Any = Session()
    captured: dict[int, str] = {}

    def start(partitions: int) -> None:
        with _configured(session, partitions, {"ProcessingTime"}):
            captured[partitions] = session.settings["spark.sql.shuffle.partitions"]

    threads = [threading.Thread(target=start, args=(partitions,)) for partitions in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert captured == {partitions: str(partitions) for partitions in range(1, 9)}
    assert session.settings == {"spark.sql.shuffle.partitions": "200"}


@pytest.mark.parametrize(
    ("trigger", "complaint"),
    [
        (
            {"realTime": "5 minutes"},
            "trigger 'realTime' runs without batches.* use processingTime or availableNow",
        ),
        ({"continuous": "1 second"}, "trigger 'continuous' runs without batches"),
        ({"realtime": "5 minutes"}, "there is no trigger 'realtime'"),
    ],
)
def test_a_trigger_without_batches_is_refused_by_name(trigger: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        _trigger(trigger)


def test_other_triggers_are_passed_on() -> None:
    assert _trigger(None) == {}
    assert _trigger("availableNow") == {"availableNow": True}
    assert _trigger("10 seconds") == {"processingTime": "10 seconds"}
    assert _trigger({"once": True, "realTime": None}) == {"once": True}


class Views:
    """The global temporary views of an application."""

    def __init__(self, *names: str) -> None:
        self.catalog, self.names = self, set(names)

    def dropGlobalTempView(self, name: str) -> None:  # noqa: N802 as Spark calls it
        self.names.discard(name)


def test_a_query_that_begins_a_checkpoint_starts_with_an_empty_view(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path), Lease(str(tmp_path)), [Ledger(str(tmp_path))], 1)
    views: Any = Views("totals", "others")
    _begin_sink(Parquet("totals"), checkpoint, views)
    assert views.names == {"totals", "others"}
    _begin_sink(Memory("totals"), checkpoint, views)
    assert views.names == {"others"}


def test_a_query_that_goes_on_keeps_its_view(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path), Lease(str(tmp_path)), [Ledger(str(tmp_path))], 1)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1")
    views: Any = Views("totals")
    _begin_sink(Memory("totals"), checkpoint, views)
    assert views.names == {"totals"}
