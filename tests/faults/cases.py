"""The cases of the campaign by group; each group is a function of a folder that yields the outcomes of its cases."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark

from tests.faults import disks, files, hosts, inputs
from tests.faults.outcome import Outcome
from tests.faults.process import ROOT, Job, wait
from tests.faults.replay import Place
from unskew.streaming.failpoints import NAMES

SLOT = ("imported", "handled", "exported", "stored", "acknowledged")
RANDOM_KILLS = 50

Group = Callable[[Path], Iterator[Outcome]]


def killed_once(root: Path) -> Iterator[Outcome]:
    """The driver and all its child processes, at every failpoint."""
    yield from _killed(root, "totals", NAMES, times=1)


def killed_twice(root: Path) -> Iterator[Outcome]:
    """At every failpoint, and again in the replay of the same batch; a checkpoint is created only once."""
    yield from _killed(root, "windows", [name for name in NAMES if name != "begun"], times=2)


def _killed(root: Path, kind: str, names: Iterable[str], times: int) -> Iterator[Outcome]:
    place, home = Place.at(root / kind, kind), root / "home"
    for name in names:
        started = time.perf_counter()
        where = _hit(place, home, name, times)
        title = f"driver killed {'twice ' if times > 1 else ''}at {name}, {kind}"
        if where:
            yield Outcome.of(title, place.wrong(complete=False), time.perf_counter() - started, where)
        else:
            yield Outcome(title, "error", time.perf_counter() - started, "was not reached")
    yield from _finished(place, home, f"{kind} to its end after these kills")


def _hit(place: Place, home: Path, name: str, times: int) -> str:
    """Kill at a failpoint of the batch after the next, `times` in all; returns where, or "" if it was not reached."""
    committed = place.committed()
    batch = 0 if name == "begun" else (committed[-1] if committed else -1) + 2
    place.grow(5)
    for _ in range(times):
        shutil.rmtree(home / "failed", ignore_errors=True)
        with Job(home, f"{name}@{batch}=kill") as job:
            answer = job.run(place.request())
            if answer is not None:
                return ""
    return f"batch {batch}"


def _finished(place: Place, home: Path, name: str) -> Iterator[Outcome]:
    started = time.perf_counter()
    with Job(home) as job:
        answer = job.run(place.request())
    spent = time.perf_counter() - started
    if answer is None or not answer["ok"]:
        yield Outcome(name, "error", spent, "died" if answer is None else answer["error"], fault=False)
        return
    batches, moved = place.committed(), place.moved()
    note = f"{len(moved)} of {len(batches)} batches moved state"
    yield Outcome.of(name, place.wrong(), spent, note, fault=False)
    if len(moved) * 3 < len(batches):
        yield Outcome(name, "error", 0.0, "state moved in less than every third batch")


def killed_at_random(root: Path) -> Iterator[Outcome]:
    """The driver and all its child processes, at any moment of a run, for each kind of operator in turn."""
    dice = random.Random(4)
    kinds = ("totals", "update", "windows")
    for i, kind in enumerate(kinds):
        place, home = Place.at(root / kind, kind), root / f"home-{kind}"
        for number in range(i, RANDOM_KILLS, len(kinds)):
            started = time.perf_counter()
            note = _at_random(place, home, dice, number)
            wrong = place.wrong(complete=False)
            title = f"driver killed at random moment {number + 1}, {kind}"
            yield Outcome.of(title, wrong, time.perf_counter() - started, note)
        yield from _finished(place, home, f"{kind} to its end after these kills")


def _at_random(place: Place, home: Path, dice: random.Random, number: int) -> str:
    while True:
        place.grow(8)
        with Job(home) as job:
            before = place.committed()
            job.send(place.request())
            if number % 5:  # mostly once batches run, sometimes before
                wait(lambda before=before: place.committed() != before)  # type: ignore[misc]
            moment = dice.uniform(0, 3)
            with contextlib.suppress(TimeoutError):
                if job.answer(moment) is not None:
                    continue  # it had finished before
            job.kill()
            return f"after batch {place.committed()[-1] if place.committed() else None}, {moment:.2f} s on"


def chain(root: Path) -> Iterator[Outcome]:
    """Two chained operators: the driver killed at every failpoint, workers, and one of two executors."""
    yield from _killed(root / "driver", "chain", NAMES, times=1)
    points = {f"{name}@{i + 1}=die": name for i, name in enumerate(("packed", *SLOT))}
    settings = ["spark.task.maxFailures=4"]
    title = "Python worker killed, chain"
    yield from _survived(root / "workers", "chain", points, title, master="local[2,4]", settings=settings)
    points = {f"{n}@{b}=executor": n for n, b in (("exported", 2), ("imported", 4), ("stored", 6))}
    yield from _survived(root / "executors", "chain", points, "executor killed, chain", **cluster(root))


def python_driver_killed(root: Path) -> Iterator[Outcome]:
    """Only the Python process: its JVM lives on for a moment, while the query is already restarted."""
    place, home = Place.at(root / "update", "update"), root / "home"
    place.grow(8)
    with Job(home) as job:
        job.send(place.request())
        wait(lambda: len(place.committed()) > 1)
        job.kill(group=False)
        yield Outcome.of("Python driver killed, but not its JVM", place.wrong(complete=False), 0.0)
        yield from _finished(place, home, "the query that is restarted at once after it")


def workers(root: Path) -> Iterator[Outcome]:
    """Python workers die, or tasks fail, at every failpoint of a slot and of packing; Spark retries them."""
    for what, title in (("die", "Python worker killed"), ("raise", "task failed")):
        kind = "totals" if what == "die" else "windows"
        points = {f"{name}@{i + 1}={what}": name for i, name in enumerate(("packed", *SLOT))}
        settings = ("spark.task.maxFailures=4",)
        yield from _survived(root / what, kind, points, title, master="local[2,4]", settings=settings)


def executors(root: Path) -> Iterator[Outcome]:
    """One of two executors is killed while slots export, while they import, and after they stored their state."""
    points = {f"{n}@{b}=executor": n for n, b in (("exported", 2), ("imported", 4), ("stored", 6))}
    yield from _survived(root / "kill", "totals", points, "executor killed", **cluster(root))


def speculation(root: Path) -> Iterator[Outcome]:
    """Slots dawdle, so that Spark starts them a second time."""
    eager = [
        "spark.speculation=true",
        "spark.speculation.interval=100ms",
        "spark.speculation.multiplier=1.1",
        "spark.speculation.quantile=0.3",
        "spark.speculation.minTaskRuntime=200ms",
        "spark.locality.wait=0s",  # otherwise a copy waits for the host that has the state, where it may not run
    ]
    points = {f"{name}@{i + 2}=dawdle": name for i, name in enumerate(("handled", "exported", "stored"))}
    with two_hosts(root) as options:
        options["settings"] += eager
        yield from _survived(root / "slow", "totals", points, "speculation on, a slot dawdles", **options)
    place = Place.at(root / "slow" / "totals", "totals")
    # the attempts that did not count left their handoffs behind
    handoffs = place.checkpoint / "unskew" / "handoffs"
    sent = [(f.parent.name, *f.name.split("-")[:2]) for f in handoffs.glob("*/*")]
    if len(set(sent)) == len(sent):
        yield Outcome("speculation", "error", 0.0, "no slot ran twice")


def cluster(root: Path) -> dict[str, Any]:
    """How to start a job on two executor processes."""
    home = root / "spark"  # a cluster keeps its executors' files in its home: not in the installed package
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return {
        "master": "local-cluster[2,1,1024]",
        "env": {"SPARK_HOME": str(home)},
        "settings": [
            "spark.executor.memory=1g",
            "spark.scheduler.minRegisteredResourcesRatio=1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime=120s",
        ],
    }


@contextlib.contextmanager
def two_hosts(root: Path) -> Iterator[dict[str, Any]]:
    """How to start a job on a cluster of two hosts: Spark never starts a second copy of a task on the same host."""
    options = cluster(root)
    home = options["env"]["SPARK_HOME"]
    port = 20_000 + random.SystemRandom().randrange(10_000)
    master = f"spark://127.0.0.1:{port}"
    roles = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for host in ("127.0.0.2", "127.0.0.3"):
        role = ["worker.Worker", "--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
        roles.append([*role, "--work-dir", str(root / host), master])
    with contextlib.ExitStack() as running, (root / "cluster-log").open("wb") as log:
        for name, *arguments in roles:
            command = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments]
            env = {**os.environ, "SPARK_HOME": home}
            role_process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
            running.callback(_end, role_process)
        # the executors import this project and see the failpoints, as the driver does
        failed = {"PYTHONPATH": str(ROOT), "UNSKEW_FAILED": str(root / "slow" / "home" / "failed")}
        settings = [*options["settings"], *(f"spark.executorEnv.{n}={v}" for n, v in failed.items())]
        yield {**options, "master": master, "settings": settings}


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _survived(root: Path, kind: str, points: dict[str, str], title: str, **options: Any) -> Iterator[Outcome]:
    """A run that survives all these failpoints without a restart."""
    place, home = Place.at(root / kind, kind), root / "home"
    place.grow(len(points) + 4)
    started = time.perf_counter()
    if "settings" in options:  # executors that a cluster starts do not inherit our environment
        options["settings"] = [*options["settings"], f"spark.executorEnv.UNSKEW_FAILPOINT={','.join(points)}"]
    with Job(home, *points, **options) as job:
        answer = job.run(place.request())
        spent = (time.perf_counter() - started) / len(points)
        happened = job.happened()
    if answer is None or not answer["ok"]:
        yield Outcome(title, "error", spent, "died" if answer is None else answer["error"])
        return
    wrong = place.wrong()
    for point, name in points.items():
        if point in happened:
            yield Outcome.of(f"{title}, {name}", wrong, spent)
        else:
            yield Outcome(f"{title}, {name}", "error", spent, "was not reached")


def two_queries(root: Path) -> Iterator[Outcome]:
    """A second process on the checkpoint of a running query is refused, and takes over after the first is killed."""
    place = Place.at(root / "totals", "totals")
    place.grow(4)
    started = time.perf_counter()
    with Job(root / "first") as first:
        first.send(place.request(hold=True))
        first.answer()
        with Job(root / "second") as second:
            refused = second.run(place.request())
            first.kill()
            after = second.run(place.request())
    name, spent = "two queries on one checkpoint", time.perf_counter() - started
    if refused is None or "running a query on this checkpoint" not in refused.get("error", ""):
        yield Outcome(name, "WRONG", spent, f"the second was not refused: {refused}")
    elif after is None or not after["ok"]:
        yield Outcome(name, "error", spent, f"it did not take over: {after}")
    else:
        yield Outcome.of(name, place.wrong(), spent)


def short(root: Path) -> Iterator[Outcome]:
    """A slice: a kill while a slot exports, one after the driver published, and a damaged file."""
    place, home = Place.at(root / "totals", "totals"), root / "home"
    place.grow(7)
    for name, batch in (("exported", 2), ("published", 4)):
        started = time.perf_counter()
        answer = _run_until(place, home, f"{name}@{batch}=kill")
        spent = time.perf_counter() - started
        title = f"driver killed at {name}"
        if answer is not None:
            yield Outcome(title, "error", spent, f"was not reached: {answer}")
        else:
            yield Outcome.of(title, place.wrong(complete=False), spent)
    with Job(home) as job:
        name = files.ledger_files(place, 5)["handoff"]
        yield files.case(job, place, name, "flipped", "handoff flipped before a batch that is replayed")


def _run_until(place: Place, home: Path, failpoint: str) -> dict[str, Any] | None:
    """The answer of a job that should be killed; it is started again where only the machine was too busy."""
    for _ in range(3):
        with Job(home, failpoint) as job:
            answer = job.run(place.request())
        if answer is None or "connect" not in str(answer.get("error")):
            break
    return answer


GROUPS: dict[str, Group] = {
    "killed-once": killed_once,
    "killed-twice": killed_twice,
    "damaged": files.damaged,
    "inputs": inputs.odd,
    "workers": workers,
    "executors": executors,
    "hosts": hosts.on_hosts,
    "full": disks.full,
    "full-disk": disks.really_full,
    "read-only": disks.read_only,
    "speculation": speculation,
    "two-queries": two_queries,
    "python-driver": python_driver_killed,
    "chain": chain,
    "random": killed_at_random,
}
SHORT: dict[str, Group] = {"short": short}
