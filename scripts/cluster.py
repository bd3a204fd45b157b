"""Start, watch, hurt and stop a small Spark cluster on this machine; as root, with the Python of .venv.

    sudo .venv/bin/python scripts/cluster.py start --workers 4 --cores 1 --memory 1g --rate 100mbit

Several clusters may run at once under different names (`--name`). See docs/cluster.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script finds only its neighbours by itself

from benchmarks.cluster import MASTER, Cluster
from benchmarks.network import Network, networks, why_not


def main() -> None:
    """Do what the command line says."""
    given = _parser().parse_args()
    reason = why_not()
    if reason is not None:
        sys.exit(f"cluster: {reason}")
    try:
        for line in _do(given):
            print(line)
    except (RuntimeError, ValueError) as error:
        sys.exit(f"cluster: {error}")


def _parser() -> argparse.ArgumentParser:
    default = Cluster()
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default=default.name, help="which cluster (default: %(default)s)")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", parents=[common], help="start a master and workers")
    start.add_argument("--workers", type=int, default=default.workers)
    start.add_argument("--cores", type=int, default=default.cores, help="of each worker")
    start.add_argument("--memory", default=default.memory, help="of each worker's executor")
    start.add_argument(
        "--rate", default=default.rate, help="of each worker's link, both ways: 100mbit, 1gbit"
    )
    commands.add_parser("status", parents=[common], help="workers, links and processes")
    rate = commands.add_parser("rate", parents=[common], help="change the rate of all links")
    rate.add_argument("rate")
    for name, what in (
        ("cut", "let nothing through a worker's link"),
        ("mend", "let everything through again"),
        ("kill", "end a worker and its executors by SIGKILL"),
    ):
        commands.add_parser(name, parents=[common], help=what).add_argument("worker", type=int)
    commands.add_parser("stop", parents=[common], help="stop everything, also after a crash")
    return parser


def _do(given: argparse.Namespace) -> Sequence[str]:
    network = Network(given.name)
    if given.command not in ("start", "stop") and not network.exists():
        others = ", ".join(networks()) or "none"
        raise RuntimeError(f"cluster {given.name!r} is not running (others: {others})")
    match given.command:
        case "start":
            cluster = Cluster(given.workers, given.rate, given.cores, given.memory, given.name)
            cluster.start()
            return _settings(cluster)
        case "status":
            return _status(Cluster(name=given.name))
        case "rate":
            Cluster(name=given.name).limit(given.rate)
        case "cut":
            network.cut(_worker(given))
        case "mend":
            network.mend(_worker(given))
        case "kill":
            network.kill(_worker(given))
        case "stop":
            Cluster(name=given.name).stop()
    return []


def _worker(given: argparse.Namespace) -> int:
    workers = [host for host in Network(given.name).hosts() if host != MASTER]
    if given.worker not in workers:
        there = ", ".join(map(str, workers)) or "none"
        raise ValueError(f"cluster {given.name!r} has no worker {given.worker} (there are: {there})")
    return int(given.worker)


def _settings(cluster: Cluster) -> list[str]:
    return [
        f"{cluster.workers} workers registered with {cluster.url}; files in {cluster.folder}",
        "in the environment of the driver:",
        *(f"  export {name}={value}" for name, value in cluster.env.items()),
        "for its session (spark-submit --conf, or SparkSession.builder.config):",
        *(f"  --conf {name}={value}" for name, value in cluster.conf.items()),
    ]


def _status(cluster: Cluster) -> list[str]:
    network = cluster.network
    states = cluster.registered()
    lines = [f"{cluster.url}: {'answers' if states else 'does not answer'}"]
    for worker in network.hosts():
        if worker == MASTER:
            continue
        address = network.address(worker)
        rate = (network.rate(worker) or 0) / 1e6
        link = "cut" if network.is_cut(worker) else f"{rate:g} Mbit/s"
        running = len(network.processes(worker))
        lines.append(
            f"worker {worker}  {address}  {states.get(address, '-'):7} {link:12} {running} processes"
        )
    return lines


if __name__ == "__main__":
    main()
