"""Draw the pictures of docs/concepts.md and of the README into docs/images: `python scripts/pictures.py`.

Colours are those of the reports. Each picture has its own background, so that it is readable on light and dark pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

import unskew
from unskew.report.charts import NEUTRAL, PALETTE

IMAGES = Path(__file__).parents[1] / "docs" / "images"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"

INK, SOFT, LINE, PAPER, TINT = "#1b1f24", "#57606a", "#dfe3e8", "#ffffff", "#fdf1e8"
VERMILLION, BLUE = PALETTE[:2]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif"


class Picture:
    """An SVG that is drawn part by part."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="{FONT}">'
            f"<title>{escape(title)}</title>"
        )
        self._parts: list[str] = []
        self.box(0, 0, width, height, PAPER, PAPER)

    def box(self, x: float, y: float, width: float, height: float, fill: str, edge: str = LINE) -> None:
        """A rectangle with round corners."""
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect {size} rx="5" fill="{fill}" stroke="{edge}"/>')

    def bar(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A part of a bar, with a thin light outline."""
        size = f'x="{x:g}" y="{y:.1f}" width="{width:g}" height="{height:.1f}"'
        self._parts.append(f'<rect {size} fill="{fill}" stroke="{PAPER}" stroke-width="0.6"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 13,
        fill: str = INK,
        anchor: str = "middle",
        bold: bool = False,
    ) -> None:
        """One line of text."""
        weight = ' font-weight="650"' if bold else ""
        where = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
        self._parts.append(f'<text {where} font-size="{size}" fill="{fill}"{weight}>{escape(words)}</text>')

    def line(
        self, ends: Iterable[float], colour: str = SOFT, *, dashes: str = "", arrow: bool = False
    ) -> None:
        """A straight line from (x, y) to (x, y)."""
        x1, y1, x2, y2 = ends
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        where = f'x1="{x1:g}" y1="{y1:.1f}" x2="{x2:g}" y2="{y2:.1f}"'
        self._parts.append(f'<line {where} stroke="{colour}" stroke-width="1.6"{dashed}/>')
        if arrow:
            along = np.array([x2 - x1, y2 - y1]) / np.hypot(x2 - x1, y2 - y1)
            back, aside = np.array([x2, y2]) - 9 * along, 4.5 * np.array([-along[1], along[0]])
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in ([x2, y2], back + aside, back - aside))
            self._parts.append(f'<polygon points="{corners}" fill="{colour}"/>')

    def svg(self) -> str:
        """The picture as text."""
        return "\n".join([self._head, *self._parts, "</svg>\n"])

    def save(self, name: str) -> None:
        """Write the picture."""
        (IMAGES / name).write_text(self.svg(), "utf-8")


def flow() -> None:
    """Histogram, planner, routing table, slot column."""
    picture = Picture(800, 215, "Histogram, planner, routing table, slot column")
    titles = [
        ("Histogram", "measured"),
        ("Planner", "plain Python"),
        ("Routing table", "decided"),
        ("Column slot", "executed in the JVM"),
    ]
    for i, (title, below) in enumerate(titles):
        x = 12 + 200 * i
        picture.box(x, 14, 164, 186, TINT if title == "Routing table" else PAPER)
        picture.text(x + 82, 38, title, size=15, bold=True)
        picture.text(x + 82, 56, below, size=12, fill=SOFT)
        if i:
            picture.line((x - 34, 107, x - 3, 107), arrow=True)
    for i, height in enumerate((88, 44, 29, 22, 16, 15, 17, 14, 16, 15)):
        picture.bar(26 + 14 * i, 168 - height, 12, height, VERMILLION if i < 3 else BLUE)
    picture.text(47, 187, "heavy keys", size=11, fill=SOFT)
    picture.text(125, 187, "buckets", size=11, fill=SOFT)
    for i, words in enumerate(
        ("load of every entry", "+ the table in force", "+ N, the slots", "→ the next table")
    ):
        picture.text(294, 92 + 26 * i, words, size=12)
    rows = [("ann", "0"), ("bob", "1"), ("bucket 0", "2"), ("bucket 1", "1"), ("…", ""), ("bucket 4095", "3")]
    for i, (entry, slot) in enumerate(rows):
        y = 82 + 20 * i
        picture.text(428, y, entry, size=12, anchor="start", fill=VERMILLION if i < 2 else BLUE)
        picture.text(548, y, f"slot {slot}" if slot else "", size=12, anchor="end")
    for i, (user, slot) in enumerate((("ann", 0), ("eve", 3), ("ann", 0), ("bob", 1), ("joe", 2))):
        y = 100 + 20 * i
        picture.text(640, y, user, size=12, anchor="start")
        picture.text(752, y, str(slot), size=12, anchor="end")
    picture.text(640, 80, "user", size=11, fill=SOFT, anchor="start")
    picture.text(752, 80, "slot", size=11, fill=SOFT, anchor="end")
    picture.save("flow.svg")


def placement(keys: int = 2000, slots: int = 8, coloured: int = 6) -> None:
    """The same keys on the same slots under `hash` and `keel`: one bar per slot, the heaviest keys in colour."""
    counts = {f"key-{k}": 1e6 / (k + 1) for k in range(keys)}
    measured = unskew.Histogram.from_counts(counts, buckets=1024)
    picture = Picture(800, 330, "The load of each slot under hashing and under keel")
    scale = 190 / (1.5 * measured.total / slots)
    for side, planner in enumerate(("hash", "keel")):
        plan = unskew.plan(measured, slots, planner)
        left, floor = 30 + 390 * side, 282
        title = "hash partitioning" if planner == "hash" else "a measured table (keel)"
        picture.text(left + 175, 30, title, size=15, bold=True)
        figure = f"fullest slot {plan.imbalance:.2f} × the mean; no table can do better than {plan.bound:.2f}"
        picture.text(left + 175, 50, figure, size=12, fill=SOFT)
        top = plan.table.slot_of([f"key-{k}" for k in range(coloured)])
        for slot, load in enumerate(plan.loads):
            x, y = left + 45 * slot, float(floor)
            inside = [k for k in range(coloured) if top[k] == slot]
            parts = [(NEUTRAL, load - sum(counts[f"key-{k}"] for k in inside))]
            for colour, part in parts + [(PALETTE[k % len(PALETTE)], counts[f"key-{k}"]) for k in inside]:
                y -= part * scale
                picture.bar(x, y, 36, part * scale, colour)
            picture.text(x + 18, floor + 17, str(slot), size=12, fill=SOFT)
        bound = floor - plan.bound * measured.total / slots * scale
        picture.line((left - 8, bound, left + 359, bound), INK, dashes="2 4")
    picture.text(
        400, 320, f"slots; colours: the {coloured} heaviest keys; dots: the bound", size=12, fill=SOFT
    )
    picture.save("placement.svg")


def turns() -> None:
    """A key's state moves from one slot to another over three batches."""
    picture = Picture(800, 330, "How state moves between slots while a query runs")
    batches = ("batch b", "batch b + 1", "batch b + 2")
    captions = {
        (0, 0): ("handles ann",),
        (0, 1): ("handles others",),
        (1, 0): ("handles ann,", "then writes her state", "to a handoff file", "and reports it"),
        (1, 1): ("handles others",),
        (2, 0): ("handles others",),
        (2, 1): ("reads the handoff", "first, then", "handles ann"),
    }
    for column, batch in enumerate(batches):
        x = 90 + 236 * column
        picture.text(x + 105, 30, batch, size=15, bold=True)
        for row in range(2):
            owns_ann = row == (column == 2)
            fill, edge = (TINT, VERMILLION) if owns_ann else (PAPER, LINE)
            picture.box(x, 46 + 104 * row, 210, 90, fill, edge)
            lines = captions[column, row]
            for i, words in enumerate(lines):
                y = 96 + 104 * row - 9 * (len(lines) - 1) + 18 * i
                picture.text(x + 105, y, words)
    picture.text(14, 96, "slot 0", anchor="start", bold=True)
    picture.text(14, 200, "slot 1", anchor="start", bold=True)
    picture.line((511, 118, 560, 178), VERMILLION, arrow=True)
    for x, words in (
        (195, ("after it: measure and decide;", "publish the target")),
        (431, ("after it: the table", "sends ann to slot 1")),
        (667, ("ann never waited,", "and never had two owners")),
    ):
        for i, line in enumerate(words):
            picture.text(x, 278 + 18 * i, line, size=12, fill=SOFT)
    picture.save("turns.svg")


def tasks() -> None:
    """The tasks of the skewed join of the demo, before and after, from the record of `python -m benchmarks.demo`."""
    record = json.loads((RESULTS / "demo.json").read_text("utf-8"))["join"]["runs"]
    runs = [("Spark as it comes", record["Spark as it comes"]), ("with unskew", record["unskew"])]
    end = max(task[2] for _, run in runs for task in run["tasks"])
    picture = Picture(800, 250, "Every task of a skewed join, with Spark as it comes and with unskew")
    for side, (name, run) in enumerate(runs):
        left = 24 + 392 * side
        picture.text(left, 28, name, size=15, anchor="start", bold=True)
        picture.text(left + 360, 28, f"{run['seconds']:.1f} s", size=15, anchor="end", bold=True)
        lanes = _lanes(run["tasks"])
        height = 176 / len(lanes)
        for lane, spans in enumerate(lanes):
            for begin, stop in spans:
                long = stop - begin > 0.5 * end
                width = max(1.5, 360 * (stop - begin) / end)
                colour = VERMILLION if long else BLUE
                picture.bar(left + 360 * begin / end, 42 + lane * height, width, 0.8 * height, colour)
        picture.line((left, 222, left + 360, 222), LINE)
    words = "each row is a core, each bar a task; time runs to the right"
    picture.text(24, 240, words, size=12, fill=SOFT, anchor="start")
    picture.save("tasks.svg")


def _lanes(spans: list[list[float]]) -> list[list[tuple[float, float]]]:
    """Tasks as bars on as few rows as were cores: each on the first row that is free."""
    lanes: list[list[tuple[float, float]]] = []
    for _, begin, stop in sorted(spans, key=lambda span: span[1]):
        free = next((lane for lane in lanes if lane[-1][1] <= begin + 0.01), None)
        if free is None:
            lanes.append([(begin, stop)])
        else:
            free.append((begin, stop))
    return lanes


if __name__ == "__main__":
    flow()
    if (RESULTS / "demo.json").exists():
        tasks()
    placement()
    turns()
