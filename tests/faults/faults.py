"""The campaign: live queries are killed, starved and fed damaged files, and must still compute the right answer.

`python -m tests.faults.faults [--short] [GROUP …]`. The oracle is a single-threaded replay of the input: the output of
every batch and the final state of every key. An error that stops a query is not a wrong answer, if it is expected
there, says what is wrong, and the query goes on correctly once the cause is removed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.bars import RESULTS
from research.papers.provenance import commit
from tests.faults.cases import GROUPS, SHORT
from tests.faults.outcome import Outcome
from tests.faults.process import Job
from tests.faults.replay import Place


@dataclass
class Campaign:
    """Runs groups of cases, each in its own folder, and prints the outcome of each case."""

    base: Path
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, name: str, group: Callable[[Path], Iterator[Outcome]]) -> None:
        root = self.base / name
        root.mkdir()
        try:
            for outcome in group(root):
                self._report(outcome)
        except Exception as error:  # noqa: BLE001 the other groups must run all the same
            self._report(Outcome(f"{name}: the rest", "error", 0.0, f"{type(error).__name__}: {error}"))
        if all(o.kind in ("ok", "skip") for o in self.outcomes):
            shutil.rmtree(root, ignore_errors=True)

    def _report(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        print(outcome.line(), flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a slice of about a minute")
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS))
    arguments = parser.parse_args()
    groups = SHORT if arguments.short else {n: GROUPS[n] for n in arguments.groups or GROUPS}
    started = time.perf_counter()
    campaign = Campaign(Path(tempfile.mkdtemp(prefix="unskew-faults-")))
    if not arguments.short:
        share_classes(campaign.base / "start")
    for name, group in groups.items():
        before, since = len(campaign.outcomes), time.perf_counter()
        campaign.run(name, group)
        if not arguments.short:
            record(name, campaign.outcomes[before:], round(time.perf_counter() - since))
    seconds = round(time.perf_counter() - started)
    wrong = [o for o in campaign.outcomes if o.kind == "WRONG"]
    errors = [o for o in campaign.outcomes if o.kind == "error"]
    if wrong or errors:
        print(f"the files and logs of these cases are in {campaign.base}")  # noqa: T201
    else:
        shutil.rmtree(campaign.base, ignore_errors=True)
    print(f"{len(errors)} errors, {seconds} s")  # noqa: T201
    print(f"{tried(campaign.outcomes)} faults tried, {len(wrong)} answers wrong")  # noqa: T201
    sys.exit(1 if wrong or errors else 0)


def share_classes(root: Path) -> None:
    """Archive the classes that one JVM loads for a short query, so that later JVMs start faster."""
    place = Place.at(root, "windows")
    place.grow(2)
    archive = root / "classes.jsa"
    with Job(root / "home", java=f"-XX:ArchiveClassesAtExit={archive}") as job:
        job.run(place.request())
        job.end(archive.exists)
    if archive.exists():
        Job.archive = archive


def tried(outcomes: list[Outcome]) -> int:
    """How many faults were actually tried."""
    return sum(o.fault and o.kind in ("ok", "WRONG") for o in outcomes)


def record(group: str, outcomes: list[Outcome], seconds: int) -> None:
    """Store the outcomes of a group beside those of the other groups' last runs."""
    path = RESULTS / "faults.json"
    groups = json.loads(path.read_text())["groups"] if path.exists() else {}
    groups[group] = {
        "commit": commit(),
        "when": time.strftime("%Y-%m-%d"),
        "seconds": seconds,
        "tried": tried(outcomes),
        "wrong": sum(o.kind == "WRONG" for o in outcomes),
        "errors": sum(o.kind == "error" for o in outcomes),
        "cases": [asdict(o) for o in outcomes],
    }
    totals = {name: sum(g[name] for g in groups.values()) for name in ("tried", "wrong", "errors")}
    path.write_text(json.dumps({**totals, "groups": groups}, indent=1) + "\n")


if __name__ == "__main__":
    main()
