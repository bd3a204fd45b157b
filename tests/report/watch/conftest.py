from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.watch.journals import begin
from unskew.report.watch import journal
from unskew.report.watch.journal import JournalReader
from unskew.report.watch.server import WatchServer


@pytest.fixture(autouse=True)
def always_reread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests read the journal every time instead of waiting until it may be read again."""
    monkeypatch.setattr(journal, "FRESH_SECONDS", 0.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchServer]:
    """Serves the checkpoint at `tmp_path`, which has no batch yet."""
    begin(tmp_path)
    with WatchServer(JournalReader(str(tmp_path))) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield running
        running.shutdown()
        thread.join()
