"""Hosts on one machine: what their links let through, and what is left of them."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.network import Network, bits_per_second, networks

SIZE, PORT = 12_500_000, 9000
TURNS = ((SIZE, 1), (1, SIZE))
"""Bytes sent and received: first many to the host, then many from it."""

SERVER = f"""
import contextlib, os, socket, sys
gone = contextlib.suppress(OSError)
with socket.create_server((sys.argv[1], {PORT})) as server:
    while True:
        with server.accept()[0] as peer, gone, peer.makefile("rwb") as pipe:
            for received, sent in {TURNS}:
                pipe.read(received)
                pipe.write(os.urandom(sent))
                pipe.flush()
"""


@pytest.fixture
def network(several_hosts: None, tmp_path: Path) -> Iterator[Network]:
    """Two hosts with links of 100 Mbit/s; a server runs on the first."""
    network = Network(f"n{os.getpid()}")
    network.create()
    try:
        for host in (1, 2):
            network.add(host)
            network.limit(host, "100mbit")
        with (tmp_path / "log").open("wb") as log:
            network.start(1, (sys.executable, "-c", SERVER, network.address(1)), dict(os.environ), log)
        yield network
    finally:
        network.remove()


def connect(network: Network, patience: float = 10.0) -> socket.socket:
    end = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((network.address(1), PORT), timeout=patience)
        except ConnectionRefusedError:  # it has not started yet
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def speeds(network: Network) -> list[float]:
    """Megabits per second to the host and from it."""
    rates = []
    with connect(network) as peer, peer.makefile("rwb") as pipe:
        for sent, received in TURNS:
            load = os.urandom(sent)
            started = time.perf_counter()
            pipe.write(load)
            pipe.flush()
            pipe.read(received)
            rates.append(SIZE * 8e-6 / (time.perf_counter() - started))
    return rates


def test_a_link_keeps_to_its_rate_both_ways(network: Network) -> None:
    assert all(60 < speed < 105 for speed in speeds(network))
    network.limit(1, "1gbit")
    assert all(150 < speed < 1050 for speed in speeds(network))
    assert (network.rate(1), network.rate(2)) == (1e9, 1e8)


def test_nothing_passes_a_cut_link_until_it_is_mended(network: Network) -> None:
    connect(network).close()
    network.cut(1)
    assert network.is_cut(1)
    with pytest.raises(OSError, match=r"timed out|No route"):
        connect(network, patience=0.5)
    network.reconnect(1)
    connect(network).close()


def test_kill_ends_what_runs_on_one_host(network: Network) -> None:
    connect(network).close()
    assert len(network.processes(1)) == 1
    network.kill(2)
    connect(network).close()
    network.kill(1)
    assert network.processes(1) == []
    with pytest.raises(ConnectionRefusedError):
        connect(network, patience=0.2)


def test_remove_leaves_nothing_and_may_be_repeated(network: Network) -> None:
    running = network.processes(1)
    with pytest.raises(RuntimeError, match="already"):
        network.create()
    for _ in range(2):
        network.remove()
        assert network.name not in networks()
        assert list(Path("/sys/class/net").glob(f"{network.bridge}*")) == []
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in running)
    with pytest.raises(RuntimeError, match=f"no network '{network.name}'"):
        network.address(1)


def test_rates_and_names_are_checked() -> None:
    assert bits_per_second("2.5gbit") == 2.5e9
    for wrong in ("100", "fast", "1gbit; reboot"):
        with pytest.raises(ValueError, match="like 100mbit"):
            bits_per_second(wrong)
    for wrong in ("", "much-too-long", "../x"):
        with pytest.raises(ValueError, match="1 to 8 lower-case"):
            Network(wrong)
