"""Start, inspect, damage and stop a small Spark cluster on this machine; run it as root, with the Python of .venv.

    sudo .venv/bin/python scripts/cluster.py start --workers 4 --cores 1 --memory 1g --rate 100mbit

Several clusters may run at once under different names (`--name`). See docs/cluster.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# Python only puts the folder of the script itself on its path
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cluster import MASTER, Cluster
from benchmarks.network import Network, networks, why_not


def main() -> None:
    """Run the command given on the command line."""
    arguments = _parser().parse_args()
    reason = why_not()
    if reason is not None:
        sys.exit(f"cluster: {reason}")
    try:
        for line in _run(arguments):
            print(line)
    except (RuntimeError, ValueError) as error:
        sys.exit(f"cluster: {error}")


def _parser() -> argparse.ArgumentParser:
    default = Cluster()
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default=default.name, help="name of the cluster (default: %(default)s)")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", parents=[common], help="start a master and workers")
    start.add_argument("--workers", type=int, default=default.workers, help="how many (default: %(default)s)")
    start.add_argument("--cores", type=int, default=default.cores, help="per worker (default: %(default)s)")
    start.add_argument("--memory", default=default.memory, help="per executor (default: %(default)s)")
    rates = "of each worker's link in both directions: 100mbit, 1gbit (default: %(default)s)"
    start.add_argument("--rate", default=default.rate, help=rates)
    commands.add_parser("status", parents=[common], help="print workers, links and processes")
    rate = commands.add_parser("rate", parents=[common], help="change the rate of all links")
    rate.add_argument("rate", help="100mbit, 1gbit")
    for name, what in (
        ("cut", "let nothing through a worker's link"),
        ("reconnect", "undo cut"),
        ("kill", "kill a worker and its executors with SIGKILL"),
    ):
        commands.add_parser(name, parents=[common], help=what).add_argument("worker", type=int)
    commands.add_parser("stop", parents=[common], help="stop everything; also cleans up after a crash")
    return parser


def _run(arguments: argparse.Namespace) -> Sequence[str]:
    network = Network(arguments.name)
    if arguments.command not in ("start", "stop") and not network.exists():
        running = ", ".join(networks()) or "none"
        raise RuntimeError(f"cluster {arguments.name!r} is not running (running: {running})")
    match arguments.command:
        case "start":
            cluster = Cluster(
                arguments.workers, arguments.rate, arguments.cores, arguments.memory, arguments.name
            )
            cluster.start()
            return _settings(cluster)
        case "status":
            return _status(Cluster(name=arguments.name))
        case "rate":
            Cluster(name=arguments.name).limit(arguments.rate)
        case "cut":
            network.cut(_worker(arguments))
        case "reconnect":
            network.reconnect(_worker(arguments))
        case "kill":
            network.kill(_worker(arguments))
        case "stop":
            Cluster(name=arguments.name).stop()
    return []


def _worker(arguments: argparse.Namespace) -> int:
    workers = [host for host in Network(arguments.name).hosts() if host != MASTER]
    if arguments.worker not in workers:
        existing = ", ".join(map(str, workers)) or "none"
        raise ValueError(f"cluster {arguments.name!r} has no worker {arguments.worker} (it has: {existing})")
    return int(arguments.worker)


def _settings(cluster: Cluster) -> list[str]:
    return [
        f"{cluster.workers} workers registered with {cluster.url}; files in {cluster.folder}",
        "set in the driver's environment:",
        *(f"  export {name}={value}" for name, value in cluster.env.items()),
        "set in the driver's session (spark-submit --conf, or SparkSession.builder.config):",
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
