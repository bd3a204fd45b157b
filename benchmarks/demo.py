"""The first two acts of `unskew demo`, recorded with every task: the picture of the README is drawn from it.

Usage: python -m benchmarks.demo, then python scripts/pictures.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, finish
from unskew.demo import crawl, orders, session
from unskew.demo.runs import Outcome


def main() -> None:
    """Run both acts, and judge what unskew gains over Spark as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        spark = session.start(orders.Orders.cores, Path(folder) / "spark.log")
        acts = {
            "join": orders.run(spark, orders.Orders(), print),
            "group": crawl.run(spark, crawl.Crawl(), print),
        }
        spark.stop()
    bars = [
        Bar(f"demo, {name}: Spark as it comes / unskew", act.gain, 3.0, at_least=True, unit=" ×")
        for name, act in acts.items()
    ]
    details: dict[str, Any] = {name: _figures(act) for name, act in acts.items()}
    details["load average"] = os.getloadavg()[0]
    finish("demo", bars, details)


def _figures(act: Outcome) -> dict[str, Any]:
    return {
        "text": act.text,
        "runs": {
            run.name: {
                "seconds": round(run.seconds, 3),
                "tasks": [[task, round(start, 3), round(end, 3)] for task, start, end in run.tasks],
            }
            for run in act.runs
        },
    }


if __name__ == "__main__":
    main()
