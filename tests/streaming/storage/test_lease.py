"""One query a checkpoint."""

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


def test_the_second_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first = Lease(str(tmp_path)).take()
    second = Lease(f"{tmp_path}/")
    with pytest.raises(ValueError, match=f"process {os.getpid()} runs on this checkpoint: stop that query"):
        second.take()
    second.release()
    with pytest.raises(ValueError, match="runs on this checkpoint"):
        Lease(str(tmp_path)).take()
    first.release()
    first.release()
    second.take().release()


def test_other_checkpoints_are_free(tmp_path: Path) -> None:
    one, two = Lease(str(tmp_path / "one")).take(), Lease(str(tmp_path / "two")).take()
    one.release()
    two.release()


def test_a_live_process_is_respected_and_a_dead_one_is_not(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TAKE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match=f"process {other.pid} runs on this checkpoint: stop that"):
            Lease(str(tmp_path)).take()
        other.kill()
    assert (tmp_path / "unskew" / "lease").exists(), "it had no time to let go"
    Lease(str(tmp_path)).take().release()
    assert not (tmp_path / "unskew" / "lease").exists()


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "unskew").mkdir(exist_ok=True)
    (tmp_path / "unskew" / "lease").write_text(text)


def test_of_another_machine_the_remedy_is_told(tmp_path: Path) -> None:
    write(tmp_path, json.dumps({"host": "far-away", "pid": 1, "born": "5", "token": "t"}))
    with pytest.raises(
        ValueError, match=f"process 1 on far-away .* if it is dead remove {tmp_path}/unskew/lease"
    ):
        Lease(str(tmp_path)).take()


def test_a_process_number_that_was_given_out_again_holds_nothing(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path)).take()
    about = json.loads((tmp_path / "unskew" / "lease").read_text())
    lease.release()
    write(tmp_path, json.dumps({**about, "pid": os.getppid(), "born": "1"}))
    Lease(str(tmp_path)).take().release()
    write(tmp_path, json.dumps(about))  # as left by an earlier process that had our number
    Lease(str(tmp_path)).take().release()


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}"])
def test_half_a_lock_is_nobodys(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    if text == "{}":
        with pytest.raises(ValueError, match="remove"):
            Lease(str(tmp_path)).take()
    else:
        Lease(str(tmp_path)).take().release()
