"""Asking Spark's own web interface, a driver's or a History Server's: one address, JSON answers, nothing else.

What answers may be anything that listens there. So each question has a time-out, each answer a limit, and a redirect
is followed on the same host only; whatever is wrong is a ValueError of one line that names the address.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from http.client import HTTPException, HTTPResponse
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

TIMEOUT = 20.0
"""Seconds for a whole answer: a History Server may first have to read a long log."""

LARGEST = 64 * 2**20
"""Bytes of one answer: ten times what a page of tasks takes."""

OLDEST = (3, 5)
"""The first version of Spark whose answers hold all that is read here."""


class RestClient:
    """Questions to `<address>/api/v1`; `address` is what a browser shows for Spark's web interface."""

    def __init__(self, address: str, *, timeout: float = TIMEOUT, largest: int = LARGEST) -> None:
        parts = urlsplit(address if "//" in address else f"http://{address}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address}: not an address of Spark's web interface: give http://host:port")
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f"{address}: not a port: give http://host:port") from error
        if parts.username or parts.password or re.search(r"[\s\x00-\x1f\x7f]", address):
            raise ValueError(f"{parts.hostname}: give http://host:port, without a user or blanks")
        self._base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._timeout, self._largest = timeout, largest
        handlers: list[Any] = [_SameHost(parts.hostname, port)]
        if parts.hostname in ("localhost", "127.0.0.1", "::1"):
            handlers.append(ProxyHandler({}))  # no proxy reaches this machine's own ports
        self._opener = build_opener(*handlers)

    def __repr__(self) -> str:
        return f"RestClient({self._base})"

    @property
    def address(self) -> str:
        """The address, without what was added to it."""
        return self._base

    def version(self) -> str:
        """The version of the Spark that answers; one that is too old is refused."""
        answer = self.get("version")
        version = answer.get("spark") if isinstance(answer, dict) else None
        numbers = re.match(r"(\d+)\.(\d+)", version) if isinstance(version, str) else None
        if numbers is None:
            raise ValueError(
                f"{self._base}: no web interface of Spark: it does not say its version; check the address"
            )
        if (int(numbers[1]), int(numbers[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise ValueError(f"{self._base}: Spark {version} is too old: it needs to be {oldest} or later")
        return str(version)

    def get(self, *path: object, **query: object) -> Any:
        """The answer to one question, parsed."""
        steps = "/".join(quote(str(step), safe="") for step in path)
        url = f"{self._base}/api/v1/{steps}" + (f"?{urlencode(query)}" if query else "")
        try:
            with self._opener.open(
                Request(url, headers={"Accept": "application/json"}), timeout=self._timeout
            ) as response:
                kind = response.headers.get_content_type()
                body = self._body(response)
        except HTTPError as error:
            with error:
                raise self._refused(error) from None
        except TimeoutError:
            raise self._slow() from None
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self._slow() from None
            reason = getattr(error.reason, "strerror", None) or str(error.reason)
            raise ValueError(
                f"{self._base}: does not answer: {reason}; check that the application runs, and the address"
            ) from None
        except (HTTPException, OSError) as error:
            reason = " ".join(str(error).split())[:80] or type(error).__name__
            raise ValueError(f"{self._base}: not an answer of Spark ({reason}): check the address") from None
        if kind != "application/json":
            raise ValueError(
                f"{self._base}: answered {kind}, not JSON: a log-in page, or not the address of Spark's web interface"
            )
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError(
                f"{self._base}: its answer is not JSON, although it says so; check the address"
            ) from None

    def _body(self, response: HTTPResponse) -> bytes:
        """The whole answer, unless it is too long or takes too long, however slowly it trickles."""
        deadline = time.monotonic() + self._timeout
        parts, size = [], 0
        while part := response.read1(1 << 16):
            parts.append(part)
            size += len(part)
            if size > self._largest:
                raise ValueError(
                    f"{self._base}: its answer has more than {self._largest >> 20} MB: read the event log instead"
                )
            if time.monotonic() > deadline:
                raise self._slow()
        return b"".join(parts)

    def _slow(self) -> ValueError:
        return ValueError(f"{self._base}: no whole answer within {self._timeout:g} s")

    def _refused(self, error: HTTPError) -> ValueError:
        if error.code in (301, 302, 303, 307, 308):
            target = urlsplit(error.headers.get("Location", "")).netloc or "nowhere"
            return ValueError(
                f"{self._base}: redirects to {target}, which is not followed: give that address if you trust it"
            )
        meaning = {401: "a log-in is needed", 403: "not allowed", 404: "there is no such thing"}
        return ValueError(
            f"{self._base}: answered {error.code}: {meaning.get(error.code, error.reason or 'an error')}"
        )


class _SameHost(HTTPRedirectHandler):
    """Follows a redirect to the same host and port; any other becomes an error."""

    max_redirections = 3

    def __init__(self, host: str, port: int | None) -> None:
        self._host, self._port = host, port

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        """The request to repeat, if it stays on the host."""
        target = urlsplit(newurl)
        same = target.hostname == self._host and target.port == self._port
        if not same or target.scheme not in ("http", "https"):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def records(answer: Any, what: str, address: str) -> list[dict[str, Any]]:
    """An answer that has to be a list of objects."""
    if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
        raise ValueError(f"{address}: not an answer of Spark, its {what} are not a list: check the address")
    return answer


def first(items: Iterable[dict[str, Any]], **values: object) -> dict[str, Any] | None:
    """The first object with these values."""
    return next((item for item in items if all(item.get(k) == v for k, v in values.items())), None)
