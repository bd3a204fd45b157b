"""The watch page as one HTML document: served, and then it asks for news, or exported with everything in it.

The markup is the same for every query. What the journal says is in a JSON block, or comes as JSON, and the script
only ever makes text nodes of it.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import cache
from typing import Any

from unskew.report.page import digest, document, embedded_json, policy, resource
from unskew.report.watch.journal import Batch, JournalReader, News, Slot, TopKey

TITLE = "unskew watch"


def live_page(reader: JournalReader) -> str:
    """The page without any batch, which asks the server that it came from."""
    return _page(reader, None)


def exported_page(reader: JournalReader) -> str:
    """The page with all batches in it, which makes no requests."""
    return _page(reader, reader.news())


@cache
def live_policy() -> str:
    """The security policy of the served page: its own scripts and style, and requests to its own server."""
    return _policy("connect-src 'self'; img-src 'self'")


def news_to_dict(news: News) -> dict[str, Any]:
    """News in the form that the page's script takes."""
    latest = None if news.latest is None else {"slots": news.latest.slots, "top": news.latest.top}
    return {
        "position": news.position,
        "batches": news.batches,
        "latest": latest,
        "status": asdict(news.status),
    }


def _page(reader: JournalReader, news: News | None) -> str:
    setup = {
        "checkpoint": reader.checkpoint,
        "max_slots": reader.max_slots,
        "columns": {"batch": Batch._fields, "slot": Slot._fields, "key": TopKey._fields},
        "exported": time.time(),
        "news": None if news is None else news_to_dict(news),
    }
    data = f'<script type="application/json" id="setup">{embedded_json(setup)}</script>\n'
    rules = live_policy() if news is None else _policy("connect-src 'none'")
    return document(TITLE, _own("body.html") + data, _style(), _scripts(), rules)


def _policy(more: str) -> str:
    return policy(_scripts(), f"{more}; style-src {digest(_style())}")


def _style() -> str:
    return resource("page.css") + _own("watch.css")


def _scripts() -> list[str]:
    return [_own("charts.js"), _own("watch.js")]


def _own(name: str) -> str:
    return resource(name, "unskew.report.watch")
