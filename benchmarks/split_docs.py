"""The tables of split hot keys in the docs, from the committed records: `make docs-split`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bars import RESULTS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    "joins": "hot-keys-joins.md",
    "windows": "hot-keys-windows.md",
    "aggregates": "hot-keys-aggregates.md",
}
"""Part of the benchmark → the page with its tables."""

Figures = Mapping[str, Any]
Cases = Mapping[str, Mapping[str, Figures]]


def tables(part: str) -> str:
    """The tables of a part: times as measured on two cores, and those that many cores would take."""
    path = RESULTS / f"split-{part}.json"
    if not path.exists():
        return "No run is on record."
    record: dict[str, Any] = {
        name: each["figures"] for name, each in json.loads(path.read_text("utf-8")).items()
    }
    if part == "joins":
        few, many = (
            {name: case[profile] for name, case in record.items()}
            for profile in ("two cores", "many partitions")
        )
    else:
        few = many = record
    measured = _table(few, lambda each: f"{each['seconds']:.1f} s")
    modelled = _table(
        {name: {who: each for who, each in case.items() if who != "unskew"} for name, case in many.items()},
        lambda each: (
            f"{each['modelled_16_cores']:.2f}, {each['modelled_64_cores']:.2f} s; "
            f"{each['largest_over_mean_rows']:.2f}"
        ),
    )
    return (
        f"Seconds on two cores, measured:\n\n{measured}\n\n"
        "Seconds on 16 and on 64 cores, modelled from the measured times of all tasks, and the rows of the largest "
        f"task over the mean:\n\n{modelled}"
    )


def _table(cases: Cases, cell: Callable[[Figures], str]) -> str:
    """A row per case, a column per contender."""
    contenders = list(dict.fromkeys(who for case in cases.values() for who in case))
    rows = [
        f"| {name} | {' | '.join(cell(case[who]) if who in case else '' for who in contenders)} |"
        for name, case in cases.items()
    ]
    return "\n".join([f"| | {' | '.join(contenders)} |", f"|---|{'---|' * len(contenders)}", *rows])


def rendered(part: str) -> str:
    """The page of a part with its tables as the record has them now."""
    page = DOCS / PAGES[part]
    pattern = rf"(<!-- begin measured {part}: [^\n]* -->\n).*?(<!-- end measured {part} -->)"
    text, found = re.subn(
        pattern,
        lambda match: f"{match[1]}\n{tables(part)}\n\n{match[2]}",
        page.read_text("utf-8"),
        flags=re.S,
    )
    if found != 1:
        raise ValueError(f"{page} has {found} parts that begin with 'begin measured {part}: …': mark one")
    return text


def main() -> None:
    """Write the pages."""
    for part, page in PAGES.items():
        (DOCS / page).write_text(rendered(part), "utf-8")
        print(DOCS / page)


if __name__ == "__main__":
    main()
