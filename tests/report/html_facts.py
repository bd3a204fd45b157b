"""What a browser finds in a page, read with the standard library's parser."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Page:
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    scripts: list[tuple[str | None, str]] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    text: str = ""

    @property
    def code(self) -> list[str]:
        return [script for kind, script in self.scripts if kind is None]

    @property
    def data(self) -> list[str]:
        return [script for kind, script in self.scripts if kind == "application/json"]

    @property
    def policy(self) -> str:
        return next(value for name, value in self.attributes if name == "content" and "script-src" in value)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.tags.append(tag)
        self.page.attributes += [(name, value or "") for name, value in attrs]
        self._inside = tag if tag in {"script", "style"} else None
        if tag == "script":
            self.page.scripts.append((dict(attrs).get("type"), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            kind, script = self.page.scripts[-1]
            self.page.scripts[-1] = (kind, script + data)
        elif self._inside == "style":
            self.page.styles.append(data)
        else:
            self.page.text += data


def read(html: str) -> Page:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.page


def assert_self_contained(page: Page) -> None:
    """Nothing is fetched: no address in any attribute or style, and the policy would refuse it anyway."""
    for name, value in page.attributes:
        embedded = name == "src" and value.startswith("data:image/")  # a picture that is in the page itself
        assert embedded or name not in {"src", "href", "srcset", "background", "action"}, (name, value[:80])
        assert not re.search(r"(https?:)?//", value), (name, value)
        assert not name.startswith("on"), (name, value)
    assert not any(re.search(r"url\(|@import|//", style) for style in page.styles)
    assert page.policy.startswith("default-src 'none'; ")
    allowed = page.policy.partition("script-src ")[2].split()
    digests = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in page.code]
    assert allowed == ([f"'sha256-{digest}'" for digest in digests] or ["'none'"])
