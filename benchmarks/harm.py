"""`make bench-harm`: does unskew ever make an everyday job worse?

Every job of the corpus (`harm_jobs.py`) is run as it is and with the word changed (`df.groupBy("user")` becomes
`unskew.groupBy(df, "user")`), in turns, in one Spark. Both must give equal rows; unskew must not shuffle more, start
more than one Spark job more, or take noticeably longer. Measuring and planning count towards unskew.

`python -m benchmarks.harm [NAME…] [--connect | --both]` runs all jobs, or those whose name contains one of the words.
Each job is saved when it ends: a stopped run continues, as long as the commit and the scale stay the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bars import RESULTS, Bar
from benchmarks.harm_docs import wins_time, write
from benchmarks.harm_jobs import JOBS
from benchmarks.harm_log import Log
from research.papers.provenance import commit, machine

MODES = ("classic", "connect")
BARS = {
    "raises": "jobs that raise an error",
    "rows": "jobs with other rows",
    "exchanges": "jobs with more shuffles than plain Spark",
    "bytes": "jobs that shuffle over 1.05 × the bytes of plain Spark",
    "jobs": "jobs with over one Spark job more than plain Spark",
    "time": "jobs over 1.05 × the time of plain Spark, or over 0.3 s more if below ten seconds",
}


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    names = [name for name in JOBS if not options.names or any(word in name for word in options.names)]
    if not names:
        sys.exit(f"no job is called {' or '.join(options.names)}: see --list")
    if options.list:
        print("\n".join(names))
        return
    if options.docs:
        write()
        return
    folder: Path = options.results or (RESULTS if options.scale == 1 else Path("build/harm"))
    folder.mkdir(parents=True, exist_ok=True)
    modes = MODES if options.both else (MODES[options.connect],)
    if options.both:
        arguments = [argument for argument in sys.argv[1:] if argument != "--both"]
        for mode in modes:
            command = [sys.executable, "-m", "benchmarks.harm", *arguments, "--measure-only"]
            subprocess.run([*command, *(["--connect"] if mode == "connect" else [])], check=True)
    else:
        _measure(modes[0], names, folder, options)
    if not options.measure_only:
        sys.exit(0 if _judge(folder) else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harm", description=__doc__.split("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="jobs whose name contains this (default: all)"
    )
    parser.add_argument("--connect", action="store_true", help="on Spark Connect instead of classic Spark")
    parser.add_argument("--both", action="store_true", help="on classic Spark, then on Spark Connect")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows of the full size")
    parser.add_argument("--turns", type=int, default=3, help="turns per version; 0 times nothing")
    parser.add_argument("--again", action="store_true", help="measure again what is in the record already")
    parser.add_argument("--results", type=Path, help="where to write the record")
    parser.add_argument("--list", action="store_true", help="list the jobs and run none")
    parser.add_argument(
        "--docs", action="store_true", help="write the table of docs/batch.md from the record"
    )
    parser.add_argument("--measure-only", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(mode: str, names: list[str], folder: Path, options: argparse.Namespace) -> None:
    """Run the jobs in one mode and save each when it ends."""
    from benchmarks.harm_data import Inputs
    from benchmarks.harm_run import Bench, session

    part = folder / f"harm-{mode}.json"
    settings = {"scale": options.scale, "turns": options.turns}
    record = _read(part)
    if {name: record.get(name) for name in settings} != settings:
        record = {"jobs": {}}  # figures of another scale do not compare
    record |= {**settings, "when": time.strftime("%Y-%m-%d"), "machine": machine()}
    # The commit is noted per job, since a run of a few jobs leaves the others as they are. A record that is being
    # rewritten makes the tree dirty, so that does not count.
    now = commit()
    done = {
        name
        for name, job in record["jobs"].items()
        if job["commit"].removesuffix("-dirty") == now.removesuffix("-dirty")
    }
    if options.again or options.names:
        done -= set(names)
    todo = [name for name in names if name not in done]
    print(f"\n== {mode}: {len(todo)} jobs to run, {len(names) - len(todo)} in the record", flush=True)
    if not todo:
        return
    with tempfile.TemporaryDirectory(prefix="unskew-harm-", ignore_cleanup_errors=True) as temporary:
        events = Path(temporary) / "events"
        events.mkdir()
        spark = session(mode == "connect", events, quick=options.turns == 0)
        bench = Bench(spark, Log(spark, events), Inputs(spark, Path(temporary), options.scale), options.turns)
        for name in todo:
            record["jobs"][name] = {**bench.record(JOBS[name]), "commit": now}
            print(_line(name, record["jobs"][name]), flush=True)
            part.write_text(json.dumps(record, indent=1, default=float) + "\n")
        spark.stop()


def _line(name: str, job: dict[str, Any]) -> str:
    if "error" in job:
        return f"FALLS SHORT  {name}: {job['error']}"
    plain, ours = job["plain"], job["unskew"]
    verdict = "FALLS SHORT" if job["faults"] else "PASS       "
    ratio = ours["seconds"] / plain["seconds"]
    note = f"  ({', '.join(job['faults'])})" if job["faults"] else "  (wins)" if wins_time(job) else ""
    return (
        f"{verdict}  {name}: {plain['seconds']:.2f} s → {ours['seconds']:.2f} s ({ratio:.2f}×), "
        f"{plain['exchanges']} → {ours['exchanges']} exchanges, {plain['jobs']} → {ours['jobs']} jobs, "
        f"{plain['shuffled_bytes'] / 1e6:.2f} → {ours['shuffled_bytes'] / 1e6:.2f} MB{note}"
    )


def _judge(folder: Path) -> bool:
    """Write one record of both modes, print the bars, and say whether all pass."""
    modes = {mode: record for mode in MODES if (record := _read(folder / f"harm-{mode}.json"))}
    bars = [bar for mode, record in modes.items() for bar in bars_of(mode, record)]
    print()
    for bar in bars:
        print(bar.line())
    rows = [{**bar.__dict__, "passed": bar.passed} for bar in bars]
    path = folder / "harm.json"
    commits = sorted({job["commit"] for record in modes.values() for job in record["jobs"].values()})
    whole = {"commit": ", ".join(commits), "bars": rows, **modes}
    path.write_text(json.dumps(whole, indent=1, default=float) + "\n")
    short = sum(not bar.passed for bar in bars)
    print(f"\n{len(bars) - short} of {len(bars)} bars pass; details in {path}")
    return not short


def bars_of(mode: str, record: dict[str, Any]) -> list[Bar]:
    """One bar per fault: how many of the jobs have it, and which; none for time if nothing was timed."""
    jobs, bars = record["jobs"], []
    for fault, text in BARS.items():
        if fault == "time" and not record["turns"]:
            continue
        names = [name for name, job in jobs.items() if fault in job["faults"]]
        note = f"of {len(jobs)}{': ' if names else ''}{'; '.join(names)}"
        bars.append(Bar(f"{mode}: {text}", len(names), 0, note=note))
    return bars


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return record


if __name__ == "__main__":
    main()
