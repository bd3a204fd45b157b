"""Hosts on one machine: network namespaces on a bridge, over links with a limited rate (Linux, root, iproute2).

Only the kernel knows which networks exist. All names derive from the network's name, so `remove` finds and removes
what a crash left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

PREFIX = "usk-"
SUBNETS = "10.213"
"""Each network has a subnet 10.213.n.0/24: .1 is this machine, .10 host 0, .11 host 1, and so on."""

MOST_HOSTS = 90
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9}


def why_not() -> str | None:
    """Why this machine cannot have a network, or None if it can."""
    missing = [tool for tool in ("ip", "tc", "setsid") if shutil.which(tool) is None]
    if missing:
        return (
            f"{' and '.join(missing)} not found: install iproute2 and util-linux (on Debian: apt-get install)"
        )
    if os.geteuid() != 0:
        return "network namespaces need root: run it with sudo"
    probe = f"{PREFIX}probe{os.getpid()}"
    try:
        _run("ip", "netns", "add", probe)
    except RuntimeError as error:
        return f"network namespaces are not permitted here: {error}"
    _run("ip", "netns", "del", probe)
    return None


def networks() -> list[str]:
    """The names of all networks on this machine, including those that a crash left behind."""
    names = {space.removeprefix(PREFIX).rpartition("-")[0] for space in _namespaces()}
    names |= {
        link["ifname"].removeprefix(PREFIX)
        for link in _json("ip", "-j", "link", "show", "type", "bridge")
        if link["ifname"].startswith(PREFIX)
    }
    return sorted(names - {""})


def bits_per_second(rate: str) -> float:
    """The bits per second of a rate like `100mbit` or `1gbit`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg])bit", rate)
    if match is None:
        raise ValueError(f"rate {rate!r} is not valid: write it like 100mbit or 1gbit")
    return float(match[1]) * _UNITS[match[2]]


@dataclass(frozen=True)
class Network:
    """A bridge and the hosts on it, numbered from 0; every process in a host's namespace belongs to that host.

    `kill` and `remove` rely on that: no process id is stored that could later belong to another process.
    """

    name: str

    def __post_init__(self) -> None:
        # with prefix and number the name of a link may have at most 15 characters
        if not re.fullmatch(r"[a-z0-9]{1,8}", self.name):
            raise ValueError(
                f"network name {self.name!r} is not valid: use 1 to 8 lower-case letters or digits"
            )

    @property
    def bridge(self) -> str:
        """The name of the bridge, which links this machine to the hosts."""
        return f"{PREFIX}{self.name}"

    @property
    def gateway(self) -> str:
        """The address of this machine as the hosts see it."""
        if not self.exists():
            raise RuntimeError(
                f"there is no network {self.name!r} (existing: {', '.join(networks()) or 'none'})"
            )
        return str(_json("ip", "-j", "-4", "addr", "show", "dev", self.bridge)[0]["addr_info"][0]["local"])

    def exists(self) -> bool:
        """Whether this network, or a part of it, exists."""
        return self.name in networks()

    def create(self) -> None:
        """Create the bridge, without hosts."""
        if self.exists():
            raise RuntimeError(f"network {self.name!r} already exists: stop it first, or choose another name")
        subnet = _free_subnet()
        _run("ip", "link", "add", self.bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{subnet}.1/24", "dev", self.bridge)
        _run("ip", "link", "set", self.bridge, "up")

    def add(self, host: int) -> str:
        """Add a host whose link is not limited yet; returns its address."""
        space, address = self.namespace(host), self.address(host)
        _run("ip", "netns", "add", space)
        _run("ip", "link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
        _run("ip", "link", "set", space, "master", self.bridge, "up")
        _run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            _run("ip", "-n", space, "link", "set", link, "up")
        return address

    def namespace(self, host: int) -> str:
        """The name of a host's namespace, and of its link on this machine."""
        if not 0 <= host < MOST_HOSTS:
            raise ValueError(f"host {host} is not valid: hosts are numbered 0 to {MOST_HOSTS - 1}")
        return f"{self.bridge}-{host}"

    def address(self, host: int) -> str:
        """The address of a host."""
        return f"{self.gateway.rpartition('.')[0]}.{10 + host}"

    def hosts(self) -> list[int]:
        """The numbers of all hosts."""
        start = f"{self.bridge}-"
        return sorted(int(space.removeprefix(start)) for space in _namespaces() if space.startswith(start))

    def limit(self, host: int, rate: str) -> None:
        """Limit a host's link to `rate` in both directions, from now on."""
        # enough for the largest packet of the kernel, and for the timer to keep up with a fast link
        burst = max(2**16, int(bits_per_second(rate) / 8 * 0.002))
        bucket = ("root", "tbf", "rate", rate, "burst", str(burst), "latency", "50ms")
        space = self.namespace(host)
        _run("tc", "qdisc", "replace", "dev", space, *bucket)
        _run("tc", "-n", space, "qdisc", "replace", "dev", "eth0", *bucket)

    def rate(self, host: int) -> float | None:
        """The limit of a host's link in bits per second; None without a limit."""
        disciplines = _json("tc", "-j", "qdisc", "show", "dev", self.namespace(host))
        limits = [d["options"]["rate"] * 8.0 for d in disciplines if d["kind"] == "tbf"]
        return limits[0] if limits else None

    def cut(self, host: int) -> None:
        """Let nothing through a host's link, as if its cable were pulled: packets are lost without an error."""
        _run("ip", "link", "set", self.namespace(host), "down")

    def reconnect(self, host: int) -> None:
        """Undo `cut`."""
        _run("ip", "link", "set", self.namespace(host), "up")

    def is_cut(self, host: int) -> bool:
        """Whether the link is cut."""
        return "UP" not in _json("ip", "-j", "link", "show", "dev", self.namespace(host))[0]["flags"]

    def start(self, host: int, command: Sequence[str], env: dict[str, str], log: IO[bytes]) -> None:
        """Start a process on a host; it outlives this process."""
        inside = ("ip", "netns", "exec", self.namespace(host), "setsid", "--fork", *command)
        subprocess.run(inside, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)

    def processes(self, host: int) -> list[int]:
        """The ids of all processes on a host."""
        return [int(pid) for pid in _run("ip", "netns", "pids", self.namespace(host)).split()]

    def kill(self, host: int) -> None:
        """Kill every process on a host with SIGKILL; the host itself remains."""
        # a dying process may still fork, so repeat
        while running := self.processes(host):
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def remove(self) -> None:
        """Kill everything on all hosts, then remove hosts and bridge, as far as they exist."""
        for host in self.hosts():
            self.kill(host)
            _run("ip", "netns", "del", self.namespace(host))
        for link in sorted(p.name for p in Path("/sys/class/net").glob(f"{self.bridge}*")):
            if link == self.bridge or link.startswith(f"{self.bridge}-"):
                # a link may disappear with its namespace at any moment
                with contextlib.suppress(RuntimeError):
                    _run("ip", "link", "del", link)


def _free_subnet() -> str:
    taken = {info["local"] for link in _json("ip", "-j", "-4", "addr") for info in link["addr_info"]}
    return next(s for s in (f"{SUBNETS}.{n}" for n in range(1, 255)) if f"{s}.1" not in taken)


def _namespaces() -> list[str]:
    lines = _run("ip", "netns", "list").splitlines()
    return [line.split()[0] for line in lines if line.startswith(PREFIX)]


def _json(*command: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads(_run(*command) or "[]")
    return objects


def _run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout
