"""Where streams run, and where they are refused by the version that is needed."""

from __future__ import annotations

import pytest

from tests.spark.versions.test_running import Session
from unskew.spark.versions import streams


@pytest.mark.parametrize(
    ("remote", "client", "server", "needed"),
    [
        (False, "3.5.9", "3.5.9", "needs Spark 4.0 or newer, for state in Python; this session runs 3.5"),
        (False, "4.0.5", "4.0.5", ""),
        (True, "4.0.5", "4.0.5", "needs Spark 4.1 or newer on Spark Connect"),
        (True, "4.0.5", "4.3.0", "the client is 4.0, the server 4.3"),
        (True, "4.3.0", "4.0.5", "the client is 4.3, the server 4.0"),
        (True, "4.3.0", "3.5.9", "this session runs 3.5"),
        (True, "4.1.4", "4.2.1", ""),
    ],
)
def test_where_streams_run(
    monkeypatch: pytest.MonkeyPatch, remote: bool, client: str, server: str, needed: str
) -> None:
    monkeypatch.setattr(streams, "is_remote", lambda: remote)
    monkeypatch.setattr("pyspark.__version__", client)
    session = Session(server)
    if not needed:
        streams.check_streams(session)  # type: ignore[arg-type]
    else:
        with pytest.raises(ValueError, match=needed):
            streams.check_streams(session)  # type: ignore[arg-type]
    if server == "3.5.9":
        with pytest.raises(ValueError, match=r"unskew\.state needs Spark 4\.0"):
            streams.check_state(session)  # type: ignore[arg-type]
    else:
        streams.check_state(session)  # type: ignore[arg-type]
