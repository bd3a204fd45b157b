"""The server behind the live page: loopback only, two things to get, nothing to change.

What it guards: keys come from the data, so nobody but this machine may read them. It listens on 127.0.0.1, and
answers only requests that call it by a loopback name: a page from elsewhere whose own name was pointed at 127.0.0.1
(DNS rebinding) is refused. No answer is ever allowed to be framed, sniffed, cached or read by another origin.
"""

from __future__ import annotations

import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from unskew.report.page import embedded_json
from unskew.report.watch.journal import Watched
from unskew.report.watch.page import described, live_page, live_policy
from unskew.streaming.storage.ledger import LedgerError

LOOPBACK = "127.0.0.1"

_GUARDS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class WatchServer(ThreadingHTTPServer):
    """Serves the page of one checkpoint until `shutdown`; port 0 takes any free one."""

    daemon_threads = True

    def __init__(self, watched: Watched, port: int = 0) -> None:
        self.watched = watched
        watched.news()  # so that the first page need not wait for a long journal
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise ValueError(f"port {port} of {LOOPBACK} cannot be used: {error.strerror}") from error
        self.names = [[f"{name}:{self.server_port}"] for name in (LOOPBACK, "localhost")]

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it was being answered is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET; the standard library refuses every other method."""

    server: WatchServer
    timeout = 30

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if self.headers.get_all("Host", []) not in self.server.names:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its loopback address only\n")
        elif asked.path == "/":
            self._answer(HTTPStatus.OK, live_page(self.server.watched), "text/html")
        elif asked.path == "/news":
            self._news(parse_qs(asked.query).get("after", [""])[0])
        elif asked.path == "/favicon.ico":
            self._answer(HTTPStatus.NO_CONTENT)
        else:
            self._answer(HTTPStatus.NOT_FOUND, "there is / and /news\n")

    def _news(self, position: str) -> None:
        try:
            news = self.server.watched.news(position)
        except (OSError, LedgerError) as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"the journal cannot be read: {error}\n")
        else:
            self._answer(HTTPStatus.OK, embedded_json(described(news)), "application/json")

    def _answer(self, status: HTTPStatus, text: str = "", kind: str = "text/plain") -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        """Every answer has the guards, those of the standard library, too."""
        self.send_header("Content-Security-Policy", f"{live_policy()}; frame-ancestors 'none'")
        for name, value in _GUARDS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Nothing about Python's version."""
        return "unskew"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 as the base class has them
        """Nothing: a page asks every second."""
