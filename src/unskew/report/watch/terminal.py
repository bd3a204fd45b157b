"""The watch page in a terminal: redrawn every second, or printed once if the output is not a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

from rich.box import ROUNDED
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from unskew.report.page import Card, Column, Row
from unskew.report.terminal import table_of
from unskew.report.watch.journal import Batch, Figure, JournalReader, News, Slot, TopKey

REFRESH_SECONDS = 1.0

_MOST_SLOTS, _MOST_KEYS, _MOST_DECISIONS = 16, 10, 8
"""Rows of each table: a screen has room for few, and the page has them all."""

_BAR = 24
_BLOCKS, _PLAIN_BLOCKS = "▁▂▃▄▅▆▇█", "_.-~=+*#"
_STATUS_STYLES = {"running": "green", "idle": "yellow", "stopped": "bold", "gone": "red", "waiting": "dim"}


def watch_in_terminal(reader: JournalReader, console: Console) -> None:
    """Show the query until the user interrupts it; print it once if the output is not a terminal."""
    if not console.is_terminal:
        console.print(view(reader, reader.news(), console))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(view(reader, reader.news(), console), refresh=True)
            time.sleep(REFRESH_SECONDS)


def view(reader: JournalReader, news: News, console: Console) -> RenderableType:
    """Everything that `news` holds, at one moment."""
    head = Text.assemble(
        ("unskew watch ", "bold"),
        reader.checkpoint,
        "  ",
        (news.status.text, _STATUS_STYLES[news.status.word]),
    )
    if news.latest is None:
        return head
    unicode = console.encoding.lower().startswith("utf")
    slots = _slot_table(news.latest.slots, news.batches[-1], "█" if unicode else "#")
    keys = _key_table(news.latest.top, news.batches[-1])
    return Group(
        head,
        _cards(news.batches, reader.max_slots),
        _over_time(news.batches, console.width - 34, _BLOCKS if unicode else _PLAIN_BLOCKS),
        _side_by_side(slots, keys) if console.width >= 120 else Group(slots, keys),
        _decision_table(news.batches),
    )


def _cards(batches: Sequence[Batch], most: Figure) -> Table:
    last = batches[-1]
    migration = next((b for b in reversed(batches) if b.moved_rows), None)
    cards = [
        Card("batch", _text(last.batch, "{:,}"), f"{_text(last.records, '{:,}')} records"),
        Card("imbalance", _text(last.imbalance, "{:.3f}"), f"least {_text(last.bound, '{:.3f}')}"),
        Card("batch time", _text(last.seconds, "{:.2f} s"), f"{_text(last.late, '{:,}')} late"),
        Card("slots", _text(last.slots, "{}"), f"of at most {_text(most, '{}')}"),
        Card("state", f"{_text(last.state_rows, '{:,}')} keys", _text(last.state_bytes, "{:,} B")),
        Card("table", f"version {_text(last.version, '{}')}", f"{_text(last.heavy, '{:,}')} heavy rows"),
        Card(
            "last migration", "none" if migration is None else f"batch {migration.batch:,}", _moved(migration)
        ),
    ]
    grid = Table.grid(expand=True)
    grid.add_row(
        *(
            Panel(
                Text.assemble((card.value, "bold"), "\n", (card.note, "dim")),
                title=Text(card.label),
                title_align="left",
                box=ROUNDED,
                border_style="dim",
            )
            for card in cards
        )
    )
    return grid


def _moved(batch: Batch | None) -> str:
    if batch is None:
        return "no state moved"
    return f"{_text(batch.moved_rows, '{:,}')} keys, {_text(batch.moved_bytes, '{:,} B')}"


def _over_time(batches: Sequence[Batch], width: int, blocks: str) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, style, values, form in (
        ("imbalance", "yellow", [b.imbalance for b in batches], "{:.2f}"),
        ("batch time", "cyan", [b.seconds for b in batches], "{:.2f} s"),
        ("slots", "green", [b.slots for b in batches], "{}"),
    ):
        numbers = [value for value in values if value is not None] or [0.0]
        span = f"{form.format(min(numbers))} – {form.format(max(numbers))}"
        grid.add_row(Text(name, "dim"), Text(sparkline(values, width, blocks), style), Text(span, "dim"))
    moves = [1.0 if b.moved_rows else None for b in batches]
    grid.add_row(Text("state moved", "dim"), Text(sparkline(moves, width, "^"), "magenta"), Text(""))
    return grid


def sparkline(values: Sequence[Figure], width: int, blocks: str) -> str:
    """The values as one line of at most `width` blocks; each block stands for the highest of its values.

    >>> sparkline([1, 2, None, 8], 10, "123"), sparkline(range(100), 4, "1234")
    ('11 3', '1234')
    """
    parts = max(1, min(width, len(values)))
    edges = [len(values) * i // parts for i in range(parts + 1)]
    highest = [max((v for v in values[a:b] if v is not None), default=None) for a, b in pairwise(edges)]
    numbers = [value for value in highest if value is not None] or [0.0]
    low, span = min(numbers), max(numbers) - min(numbers) or 1.0
    return "".join(
        " " if value is None else blocks[min(int((value - low) / span * len(blocks)), len(blocks) - 1)]
        for value in highest
    )


def _slot_table(slots: Sequence[Slot], last: Batch, block: str) -> Table:
    loads = [slot.records or 0.0 for slot in slots]
    mean = sum(loads) / len(loads) if loads else 0.0
    fullest = sorted(slots, key=lambda slot: -(slot.records or 0.0))[:_MOST_SLOTS]
    most = max(loads, default=0.0) or 1.0
    rows: list[Row] = [
        {**slot._asdict(), "relative": (slot.records or 0.0) / mean if mean else None} for slot in fullest
    ]
    bars = [Text(block * max(1, round(_BAR * (slot.records or 0.0) / most)), "yellow") for slot in fullest]
    columns = [
        Column("slot", "slot"),
        Column("records", "records", "{:,}"),
        Column("relative", "× mean", "{:.2f}"),
        Column("state_rows", "state, keys", "{:,}"),
        Column("state_bytes", "state, size", "{:,} B"),
    ]
    caption = f"Least possible for the fullest: {_text(last.bound, '{:.2f} × mean')}."
    if len(slots) > _MOST_SLOTS:
        caption += f" {len(slots) - _MOST_SLOTS} more slots have less."
    return table_of("Slots, fullest first", columns, rows, bars=bars, caption=caption)


def _key_table(top: Sequence[TopKey], last: Batch) -> Table:
    placed = {True: "own row", False: "bucket", None: None}
    rows: list[Row] = [
        {
            **key._asdict(),
            "share": key.records / last.records if key.records and last.records else None,
            "placed": placed[key.heavy],
        }
        for key in top[:_MOST_KEYS]
    ]
    columns = [
        Column("key", "key"),
        Column("slot", "slot"),
        Column("records", "records", "{:,.0f}"),
        Column("share", "share", "{:.1%}"),
        Column("placed", "placed by"),
    ]
    return table_of("Heavy keys", columns, rows)


def _decision_table(batches: Sequence[Batch]) -> Table:
    latest = list(reversed(batches[-_MOST_DECISIONS:]))
    rows: list[Row] = [
        {
            "batch": batch.batch,
            "choice": "change" if batch.switch else "stay" if batch.reason else None,
            "reason": batch.reason or None,
            "moved": _moved(batch) if batch.moved_rows else None,
        }
        for batch in latest
    ]
    columns = [
        Column("batch", "batch", "{:,}"),
        Column("choice", "decision"),
        Column("reason", "because"),
        Column("moved", "state moved"),
    ]
    styles = {str(batch.batch): "bold yellow" for batch in latest if batch.switch}
    return table_of("Decisions", columns, rows, styles=styles)


def _side_by_side(left: Table, right: Table) -> Table:
    grid = Table.grid(padding=(0, 3))
    grid.add_row(left, right)
    return grid


def _text(value: Figure, form: str) -> str:
    return "–" if value is None else form.format(value)
