"""The campaign: live queries are killed, starved and fed damaged files, and must still come to the right answer.

`python -m tests.faults.faults [--short] [GROUP …]`. The oracle is a single-threaded replay of the input: the output of
every batch and the final state of every key. An error that stops a query is no wrong answer, if it may come and says
what is wrong, and if the query goes on rightly once the cause is gone.
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
    """Runs groups of cases, each in a folder of its own, and prints what came of each case."""

    base: Path
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, name: str, group: Callable[[Path], Iterator[Outcome]]) -> None:
        root = self.base / name
        root.mkdir()
        try:
            for outcome in group(root):
                self._tell(outcome)
        except Exception as error:  # noqa: BLE001 the other groups must run all the same
            self._tell(Outcome(f"{name}: the rest", "error", 0.0, f"{type(error).__name__}: {error}"))
        if all(o.kind in ("ok", "skip") for o in self.outcomes):
            shutil.rmtree(root, ignore_errors=True)

    def _tell(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        print(outcome.line(), flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a slice of about a minute")
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS))
    given = parser.parse_args()
    chosen = SHORT if given.short else {n: GROUPS[n] for n in given.groups or GROUPS}
    started = time.perf_counter()
    campaign = Campaign(Path(tempfile.mkdtemp(prefix="unskew-faults-")))
    if not given.short:
        quicken(campaign.base / "start")
    for name, group in chosen.items():
        before, since = len(campaign.outcomes), time.perf_counter()
        campaign.run(name, group)
        if not given.short:
            record(name, campaign.outcomes[before:], round(time.perf_counter() - since))
    seconds = round(time.perf_counter() - started)
    wrong = [o for o in campaign.outcomes if o.kind == "WRONG"]
    errors = [o for o in campaign.outcomes if o.kind == "error"]
    if wrong or errors:
        print(f"their files and logs are in {campaign.base}")  # noqa: T201
    else:
        shutil.rmtree(campaign.base, ignore_errors=True)
    print(f"{len(errors)} errors, {seconds} s")  # noqa: T201
    print(f"{tried(campaign.outcomes)} faults tried, {len(wrong)} answers wrong")  # noqa: T201
    sys.exit(1 if wrong or errors else 0)


def quicken(root: Path) -> None:
    """Have the JVMs to come start faster, by what one of them loads for a short query."""
    place = Place.at(root, "windows")
    place.grow(2)
    archive = root / "classes.jsa"
    with Job(root / "home", java=f"-XX:ArchiveClassesAtExit={archive}") as job:
        job.run(place.told())
        job.end(archive.exists)
    if archive.exists():
        Job.archive = archive


def tried(outcomes: list[Outcome]) -> int:
    """How many faults were really tried."""
    return sum(o.fault and o.kind in ("ok", "WRONG") for o in outcomes)


def record(group: str, outcomes: list[Outcome], seconds: int) -> None:
    """Keep what a group found, beside what the others found when they last ran."""
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
