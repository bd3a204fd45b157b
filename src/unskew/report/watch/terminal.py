"""What the live page shows, in a terminal: drawn anew every second, or once where nobody looks."""

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
from unskew.report.watch.journal import Batch, Figure, News, Slot, TopKey, Watched

EVERY = 1.0
"""Seconds between two looks."""

_SLOTS, _KEYS, _DECISIONS = 16, 10, 8
"""Rows of each table: a screen has few, and the page has them all."""

_BAR = 24
_BLOCKS, _PLAIN_BLOCKS = "▁▂▃▄▅▆▇█", "_.-~=+*#"
_SYMBOLS = {"running": "green", "idle": "yellow", "stopped": "bold", "gone": "red", "waiting": "dim"}


def watch_in_terminal(watched: Watched, console: Console) -> None:
    """Show the query until the user interrupts; one picture where the output is no terminal."""
    if not console.is_terminal:
        console.print(view(watched, watched.news(), console))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(view(watched, watched.news(), console), refresh=True)
            time.sleep(EVERY)


def view(watched: Watched, news: News, console: Console) -> RenderableType:
    """One picture of all that `news` holds."""
    head = Text.assemble(
        ("unskew watch ", "bold"),
        watched.checkpoint,
        "  ",
        (news.status.text, _SYMBOLS[news.status.word]),
    )
    if news.latest is None:
        return head
    unicode = console.encoding.lower().startswith("utf")
    slots = _slot_table(news.latest.slots, news.batches[-1], "█" if unicode else "#")
    keys = _key_table(news.latest.top, news.batches[-1])
    return Group(
        head,
        _cards(news.batches, watched.max_slots),
        _over_time(news.batches, console.width - 34, _BLOCKS if unicode else _PLAIN_BLOCKS),
        _side_by_side(slots, keys) if console.width >= 120 else Group(slots, keys),
        _decision_table(news.batches),
    )


def _cards(batches: Sequence[Batch], most: Figure) -> Table:
    last = batches[-1]
    moved = next((b for b in reversed(batches) if b.moved_rows), None)
    cards = [
        Card("batch", _shown(last.batch, "{:,}"), f"{_shown(last.records, '{:,}')} records"),
        Card("imbalance", _shown(last.imbalance, "{:.3f}"), f"least {_shown(last.bound, '{:.3f}')}"),
        Card("batch time", _shown(last.seconds, "{:.2f} s"), f"{_shown(last.late, '{:,}')} late"),
        Card("slots", _shown(last.slots, "{}"), f"of at most {_shown(most, '{}')}"),
        Card("state", f"{_shown(last.state_rows, '{:,}')} keys", _shown(last.state_bytes, "{:,} B")),
        Card("table", f"version {_shown(last.version, '{}')}", f"{_shown(last.heavy, '{:,}')} heavy rows"),
        Card("last migration", "none" if moved is None else f"batch {moved.batch:,}", _movement(moved)),
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


def _movement(batch: Batch | None) -> str:
    if batch is None:
        return "no state moved"
    return f"{_shown(batch.moved_rows, '{:,}')} keys, {_shown(batch.moved_bytes, '{:,} B')}"


def _over_time(batches: Sequence[Batch], width: int, blocks: str) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, style, values, form in (
        ("imbalance", "yellow", [b.imbalance for b in batches], "{:.2f}"),
        ("batch time", "cyan", [b.seconds for b in batches], "{:.2f} s"),
        ("slots", "green", [b.slots for b in batches], "{}"),
    ):
        known = [value for value in values if value is not None] or [0.0]
        span = f"{form.format(min(known))} – {form.format(max(known))}"
        grid.add_row(Text(name, "dim"), Text(spark(values, width, blocks), style), Text(span, "dim"))
    moves = [1.0 if b.moved_rows else None for b in batches]
    grid.add_row(Text("state moved", "dim"), Text(spark(moves, width, "^"), "magenta"), Text(""))
    return grid


def spark(values: Sequence[Figure], width: int, blocks: str) -> str:
    """The values as one line of at most `width` blocks, each for the highest of its values.

    >>> spark([1, 2, None, 8], 10, "123"), spark(range(100), 4, "1234")
    ('11 3', '1234')
    """
    parts = max(1, min(width, len(values)))
    edges = [len(values) * i // parts for i in range(parts + 1)]
    highest = [max((v for v in values[a:b] if v is not None), default=None) for a, b in pairwise(edges)]
    known = [value for value in highest if value is not None] or [0.0]
    low, span = min(known), max(known) - min(known) or 1.0
    return "".join(
        " " if value is None else blocks[min(int((value - low) / span * len(blocks)), len(blocks) - 1)]
        for value in highest
    )


def _slot_table(slots: Sequence[Slot], last: Batch, block: str) -> Table:
    loads = [slot.records or 0.0 for slot in slots]
    mean = sum(loads) / len(loads) if loads else 0.0
    fullest = sorted(slots, key=lambda slot: -(slot.records or 0.0))[:_SLOTS]
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
    caption = f"Least possible for the fullest: {_shown(last.bound, '{:.2f} × mean')}."
    if len(slots) > _SLOTS:
        caption += f" {len(slots) - _SLOTS} more slots have less."
    return table_of("Slots, fullest first", columns, rows, bars=bars, caption=caption)


def _key_table(top: Sequence[TopKey], last: Batch) -> Table:
    placed = {True: "own row", False: "bucket", None: None}
    rows: list[Row] = [
        {
            **key._asdict(),
            "share": key.records / last.records if key.records and last.records else None,
            "placed": placed[key.heavy],
        }
        for key in top[:_KEYS]
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
    shown = list(reversed(batches[-_DECISIONS:]))
    rows: list[Row] = [
        {
            "batch": batch.batch,
            "choice": "change" if batch.switch else "stay" if batch.reason else None,
            "reason": batch.reason or None,
            "moved": _movement(batch) if batch.moved_rows else None,
        }
        for batch in shown
    ]
    columns = [
        Column("batch", "batch", "{:,}"),
        Column("choice", "decision"),
        Column("reason", "because"),
        Column("moved", "state moved"),
    ]
    styles = {str(batch.batch): "bold yellow" for batch in shown if batch.switch}
    return table_of("Decisions", columns, rows, styles=styles)


def _side_by_side(left: Table, right: Table) -> Table:
    grid = Table.grid(padding=(0, 3))
    grid.add_row(left, right)
    return grid


def _shown(value: Figure, form: str) -> str:
    return "–" if value is None else form.format(value)
