"""The watch page as one HTML document: served, where it asks for news, or exported with everything in it.

The markup is the same for every query. What the journal says stands in a JSON block, or comes as JSON, and the
script only ever makes text nodes of it.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import cache
from typing import Any

from unskew.report.page import digest, document, embedded_json, policy, resource
from unskew.report.watch.journal import Batch, News, Slot, TopKey, Watched

TITLE = "unskew watch"


def live_page(watched: Watched) -> str:
    """The page without any batch: it asks the server that it came from."""
    return _page(watched, None)


def exported_page(watched: Watched) -> str:
    """The page with all batches in it, which asks nobody."""
    return _page(watched, watched.news())


@cache
def live_policy() -> str:
    """The security policy of the served page: its own scripts and style, and requests to its own server."""
    return _policy("connect-src 'self'; img-src 'self'")


def described(news: News) -> dict[str, Any]:
    """News as the page's script takes them."""
    latest = None if news.latest is None else {"slots": news.latest.slots, "top": news.latest.top}
    return {
        "position": news.position,
        "batches": news.batches,
        "latest": latest,
        "status": asdict(news.status),
    }


def _page(watched: Watched, news: News | None) -> str:
    setup = {
        "checkpoint": watched.checkpoint,
        "max_slots": watched.max_slots,
        "columns": {"batch": Batch._fields, "slot": Slot._fields, "key": TopKey._fields},
        "exported": time.time(),
        "news": None if news is None else described(news),
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
