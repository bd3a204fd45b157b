"""One query per checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unskew.streaming.storage.lease import Lease

TAKE = """
import sys
from unskew.streaming.storage.lease import Lease
Lease(sys.argv[1]).take()
print("held", flush=True)
input()
"""


def test_the_second_query_is_refused_until_the_first_releases_its_lease(tmp_path: Path) -> None:
    first = Lease(str(tmp_path)).take()
    second = Lease(f"{tmp_path}/")
    with pytest.raises(
        ValueError, match=f"process {os.getpid()} is already running a query on this checkpoint: stop"
    ):
        second.take()
    second.release()
    with pytest.raises(ValueError, match="already running a query"):
        Lease(str(tmp_path)).take()
    first.release()
    first.release()
    second.take().release()


def test_other_checkpoints_are_free(tmp_path: Path) -> None:
    leases = [Lease(str(tmp_path / name)).take() for name in ("first", "second")]
    for lease in leases:
        lease.release()


def test_a_live_process_is_respected_and_a_dead_one_is_not(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TAKE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(
            ValueError, match=f"process {holder.pid} is already running a query on this checkpoint"
        ):
            Lease(str(tmp_path)).take()
        holder.kill()
    assert (tmp_path / "unskew" / "lease").exists(), "it had no time to release its lease"
    Lease(str(tmp_path)).take().release()
    assert not (tmp_path / "unskew" / "lease").exists()


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "unskew").mkdir(exist_ok=True)
    (tmp_path / "unskew" / "lease").write_text(text)


def test_a_lease_of_another_machine_is_refused_with_a_remedy(tmp_path: Path) -> None:
    write(tmp_path, json.dumps({"host": "far-away", "pid": 1, "born": "5", "token": "t"}))
    with pytest.raises(
        ValueError, match=f"process 1 on far-away .* if it is dead, remove {tmp_path}/unskew/lease"
    ):
        Lease(str(tmp_path)).take()


def test_a_reused_process_id_holds_nothing(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path)).take()
    content = json.loads((tmp_path / "unskew" / "lease").read_text())
    lease.release()
    write(tmp_path, json.dumps({**content, "pid": os.getppid(), "born": "1"}))
    Lease(str(tmp_path)).take().release()
    write(tmp_path, json.dumps(content))  # as left by an earlier process that had our id
    Lease(str(tmp_path)).take().release()


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}"])
def test_half_a_lease_is_ignored(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    if text == "{}":
        with pytest.raises(ValueError, match="remove"):
            Lease(str(tmp_path)).take()
    else:
        Lease(str(tmp_path)).take().release()


def test_two_addresses_of_one_checkpoint_share_a_lease(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path)).take()
    with pytest.raises(ValueError, match="already running a query"):
        Lease(f"file:{tmp_path}").take()
    lease.release()
    Lease(f"file:{tmp_path}").take().release()
