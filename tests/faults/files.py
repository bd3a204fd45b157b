"""Files of the ledger truncated, flipped or deleted between two runs: rebuilt or named in an error, never wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.faults.outcome import Outcome
from tests.faults.process import Job
from tests.faults.replay import Place
from unskew.streaming.storage.ledger import Ledger


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    dice = random.Random(str(path.name))
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(bytes(data))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], None]] = {
    "truncated": truncated,
    "flipped": flipped,
    "deleted": Path.unlink,
}


def damaged(root: Path) -> Iterator[Outcome]:
    """Every kind of file, before a new batch and before one that is replayed."""
    place, home = Place.at(root / "base", "totals"), root / "home"
    place.grow(8)
    for point, batch in (("sink@5=kill", 5), ("published@6=kill", 7)):
        with Job(home, point) as job:
            if job.run(place.request()) is not None:
                yield Outcome("damaged files", "error", 0.0, f"{point} was not reached")
                return
        when = "begins" if batch == 5 else "is replayed"
        with Job(root / f"home-{batch}") as job:
            for what, name in ledger_files(place, batch).items():
                for damage in DAMAGES:
                    title = f"{what} {damage} before a batch that {when}"
                    yield case(job, place.copied(root / f"{batch}-{what}-{damage}"), name, damage, title)


def ledger_files(place: Place, batch: int) -> dict[str, str]:
    """A file of each kind that the turn of `batch` needs, or the batch before it left."""
    ledger = Ledger(str(place.checkpoint))
    turn = ledger.turn(batch)

    def file_of(folder: str, number: int) -> str:
        (name,) = (name for name in ledger.folder.names(folder) if name.startswith(f"{number}-"))
        return f"{folder}/{name}"

    names = {
        "turn": f"turns/{batch}",
        "table": file_of("tables", turn.table.version),
        "target": file_of("targets", batch),
        "handoff": turn.pending[-1].file,
        "acknowledgement": f"reports/{batch - 1}/0",
    }
    if batch == 5:
        names |= {"operator": "operator", "journal": "journal/00000000"}
    return names


def case(job: Job, place: Place, name: str, damage: str, title: str) -> Outcome:
    started = time.perf_counter()
    path = place.checkpoint / "unskew" / name
    intact = path.read_bytes()
    DAMAGES[damage](path)
    first = job.run(place.request())
    note = "rebuilt"
    if first is None:
        return Outcome(title, "error", time.perf_counter() - started, "the process died")
    if not first["ok"]:
        note = "stopped and named the file, went on after it was restored"
        wrong = place.wrong(complete=False)
        if name not in first["error"]:
            note = f"does not name the file: {first['error']:.500}"
            return Outcome(title, "error", time.perf_counter() - started, note)
        if wrong:
            return Outcome.of(title, wrong, time.perf_counter() - started)
        path.write_bytes(intact)
        second = job.run(place.request())
        if second is None or not second["ok"]:
            return Outcome(title, "error", time.perf_counter() - started, f"not after restoring: {second}")
    wrong = place.wrong(journal=not name.startswith("journal"))
    return Outcome.of(title, wrong, time.perf_counter() - started, note)
