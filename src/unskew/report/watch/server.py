"""The server behind the live page: loopback only, two addresses to read, nothing to change.

What it guards: keys come from the data, so only this machine may read them. It listens on 127.0.0.1, and answers only
requests that name a loopback host: a page from elsewhere whose own name was pointed at 127.0.0.1 (DNS rebinding) is
refused. No response may be framed, sniffed, cached or read by another origin.
"""

from __future__ import annotations

import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from unskew.report.page import embedded_json
from unskew.report.watch.journal import JournalReader
from unskew.report.watch.page import live_page, live_policy, news_to_dict
from unskew.streaming.storage.ledger import LedgerError

LOOPBACK = "127.0.0.1"

_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class WatchServer(ThreadingHTTPServer):
    """Serves the page of one checkpoint until `shutdown`; port 0 picks a free one."""

    daemon_threads = True

    def __init__(self, reader: JournalReader, port: int = 0) -> None:
        self.reader = reader
        reader.news()  # the first page then need not wait for a long journal
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise ValueError(
                f"port {port} of {LOOPBACK} cannot be used: {error.strerror}; choose another"
            ) from error
        self.names = [[f"{name}:{self.server_port}"] for name in (LOOPBACK, "localhost")]

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a page that was closed while it was being answered."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET; the standard library refuses every other method."""

    server: WatchServer
    timeout = 30

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self.headers.get_all("Host", []) not in self.server.names:
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its loopback address only\n")
        elif url.path == "/":
            self._send(HTTPStatus.OK, live_page(self.server.reader), "text/html")
        elif url.path == "/news":
            self._send_news(parse_qs(url.query).get("after", [""])[0])
        elif url.path == "/favicon.ico":
            self._send(HTTPStatus.NO_CONTENT)
        else:
            self._send(HTTPStatus.NOT_FOUND, "not found: use / or /news\n")

    def _send_news(self, position: str) -> None:
        try:
            news = self.server.reader.news(position)
        except (OSError, LedgerError) as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"the journal cannot be read: {error}\n")
        else:
            self._send(HTTPStatus.OK, embedded_json(news_to_dict(news)), "application/json")

    def _send(self, status: HTTPStatus, text: str = "", kind: str = "text/plain") -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        """Add the security headers to every response, including those of the standard library."""
        self.send_header("Content-Security-Policy", f"{live_policy()}; frame-ancestors 'none'")
        for name, value in _SECURITY_HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Do not reveal the version of Python."""
        return "unskew"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 as the base class has them
        """Log nothing: a page asks every second."""
