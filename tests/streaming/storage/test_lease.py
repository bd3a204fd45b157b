"""One query per checkpoint."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from unskew.streaming.storage import lease as lease_module
from unskew.streaming.storage.folder import Folder
from unskew.streaming.storage.lease import LEASE_SECONDS, Fence, Lease, LeaseLostError

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
    content = json.loads((tmp_path / "unskew" / "leases" / "1").read_text())
    assert content["pid"] == holder.pid, "it had no time to release its lease"
    Lease(str(tmp_path)).take().release()
    assert Lease(str(tmp_path)).holder() is None


def write(tmp_path: Path, text: str, name: str = "lease") -> None:
    path = tmp_path / "unskew" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text)


def test_a_lease_of_an_older_unskew_on_another_machine_is_refused_with_a_remedy(tmp_path: Path) -> None:
    write(tmp_path, json.dumps({"host": "far-away", "pid": 1, "born": "5", "token": "t"}))
    with pytest.raises(
        ValueError, match=f"process 1 on far-away .* if it is dead, remove {tmp_path}/unskew/lease"
    ):
        Lease(str(tmp_path)).take()


def test_a_reused_process_id_holds_nothing(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path)).take()
    content = json.loads((tmp_path / "unskew" / "leases" / "1").read_text())
    lease.release()
    write(tmp_path, json.dumps({**content, "pid": os.getppid(), "born": "1"}), "leases/2")
    Lease(str(tmp_path)).take().release()
    write(tmp_path, json.dumps(content), "leases/4")  # as left by an earlier process that had our id
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


RACE = """
import sys, time
from pathlib import Path
from unskew.streaming.storage.lease import Lease
root, other, own = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
held = []
for number in range(40):
    (own / str(number)).touch()
    while not (other / str(number)).exists():
        pass
    try:
        held.append(Lease(str(root / str(number))).take())
        print(number, flush=True)
    except ValueError:
        pass
print("end", flush=True)
input()
"""


def test_of_two_processes_that_start_at_once_one_holds_the_checkpoint(tmp_path: Path) -> None:
    dead = json.dumps({"host": socket.gethostname(), "pid": 2**22 + 1, "born": "1", "token": "dead"})
    ready = [tmp_path / "ready-0", tmp_path / "ready-1"]
    for folder in ready:
        folder.mkdir()
    for number in range(40):
        write(tmp_path / str(number), dead, "lease" if number % 2 else "leases/1")
    arguments = [[tmp_path, ready[1 - i], ready[i]] for i in range(2)]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, *map(str, folders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folders in arguments
    ]
    held: list[int] = []
    try:
        for racer in racers:
            assert racer.stdout is not None
            held += [int(line) for line in iter(racer.stdout.readline, "end\n")]
        for racer in racers:
            racer.communicate("\n")
    finally:
        for racer in racers:
            racer.kill()  # if one of them has failed, the other waits for it for ever
            racer.wait()
    assert sorted(held) == list(range(40))


@pytest.mark.parametrize("before", ["nothing", "dead"])
def test_a_process_that_looked_before_another_took_the_checkpoint_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    if before == "dead":
        dead = {"host": socket.gethostname(), "pid": 2**22 + 1, "born": "1", "token": "dead"}
        write(tmp_path, json.dumps(dead))
    look, others = Lease.holder, []

    def look_and_sleep(lease: Lease) -> Any:
        holder = look(lease)
        command = [sys.executable, "-c", TAKE, str(tmp_path)]
        others.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert others[0].stdout is not None
        assert others[0].stdout.readline() == b"held\n"
        return holder

    with monkeypatch.context() as patched:
        patched.setattr(Lease, "holder", look_and_sleep)
        with pytest.raises(ValueError, match="another query is starting on this checkpoint right now"):
            Lease(str(tmp_path)).take()
    assert len(others) == 1
    holder = Lease(str(tmp_path)).holder()
    assert holder is not None
    assert holder["pid"] == others[0].pid
    others[0].communicate(b"\n")


def far_away(tmp_path: Path) -> Fence:
    """A process of another machine holds the checkpoint."""
    content = {"host": "far-away", "machine": "m", "pid": 1, "born": "5", "token": "far"}
    write(tmp_path, json.dumps(content), "leases/3")
    write(tmp_path, json.dumps({"beat": 7}), "leases/3-beat")
    return Fence(f"{tmp_path}/unskew", "far")


def test_a_silent_holder_on_another_machine_loses_its_lease_and_is_stopped_if_it_wakes(
    tmp_path: Path,
) -> None:
    sleeper = far_away(tmp_path)
    sleeper.check()
    waits: list[float] = []
    lease = Lease(str(tmp_path)).take(waits.append)
    assert sum(waits) >= LEASE_SECONDS
    lease.fence.check()
    with pytest.raises(LeaseLostError, match=f"now held by process {os.getpid()}"):
        sleeper.check()
    lease.release()
    with pytest.raises(LeaseLostError, match="now held by nobody"):
        sleeper.check()


def test_a_holder_on_another_machine_that_lives_is_respected(tmp_path: Path) -> None:
    far_away(tmp_path).check()
    with pytest.raises(
        ValueError, match=r"process 1 on far-away is already running .* stop that query first"
    ):
        Lease(str(tmp_path)).take(lambda _: write(tmp_path, json.dumps({"beat": 8}), "leases/3-beat"))


def elsewhere(tmp_path: Path) -> Lease:
    """A lease that this process holds and that looks like another machine's."""
    lease = Lease(str(tmp_path)).take()
    content = {"host": "far-away", "machine": "m", "pid": 1, "born": "5", "token": lease.fence.token}
    write(tmp_path, json.dumps(content), "leases/1")
    return lease


def test_a_holder_on_another_machine_that_releases_its_lease_is_not_waited_for(tmp_path: Path) -> None:
    holder = elsewhere(tmp_path)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        holder.release()

    Lease(str(tmp_path)).take(wait).release()
    assert len(waits) == 1


def test_a_release_between_reading_the_lease_and_its_beat_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = elsewhere(tmp_path)
    waits: list[float] = []
    find = Folder.find

    def find_after_release(folder: Folder, name: str) -> bytes | None:
        if waits and name == "leases/1-beat":
            holder.release()
        return find(folder, name)

    monkeypatch.setattr(Folder, "find", find_after_release)
    Lease(str(tmp_path)).take(waits.append).release()
    assert len(waits) == 1


def test_a_container_of_the_same_name_on_another_machine_is_another_machine(tmp_path: Path) -> None:
    content = {"host": socket.gethostname(), "machine": "m", "pid": 2**22 + 1, "born": "5", "token": "far"}
    write(tmp_path, json.dumps(content), "leases/1")
    waits: list[float] = []
    Lease(str(tmp_path)).take(waits.append).release()
    assert waits


def test_a_holder_gives_signs_of_life_until_its_query_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Query:
        isActive = True  # noqa: N815 as Spark calls it

    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.01)
    lease, query = Lease(str(tmp_path)).take(), Query()
    lease.run(query)
    beat = tmp_path / "unskew" / "leases" / "1-beat"
    first = beat.read_bytes()
    while beat.read_bytes() == first:
        time.sleep(0.01)
    query.isActive = False
    while beat.exists():
        time.sleep(0.01)
    with pytest.raises(LeaseLostError):
        lease.fence.check()
