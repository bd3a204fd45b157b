from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.watch.journals import begin
from unskew.report.watch import journal
from unskew.report.watch.journal import Watched
from unskew.report.watch.server import WatchServer


@pytest.fixture(autouse=True)
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not wait until a look at the journal is stale."""
    monkeypatch.setattr(journal, "FRESH", 0.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchServer]:
    """Serves the checkpoint at `tmp_path`, which has no batch yet."""
    begin(tmp_path)
    with WatchServer(Watched(str(tmp_path))) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield running
        running.shutdown()
        thread.join()
