"""What a browser would find in a page, read with the standard library's parser."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Found:
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
        self.found = Found()
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.tags.append(tag)
        self.found.attributes += [(name, value or "") for name, value in attrs]
        self._inside = tag if tag in {"script", "style"} else None
        if tag == "script":
            self.found.scripts.append((dict(attrs).get("type"), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            kind, so_far = self.found.scripts[-1]
            self.found.scripts[-1] = (kind, so_far + data)
        elif self._inside == "style":
            self.found.styles.append(data)
        else:
            self.found.text += data


def read(page: str) -> Found:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.found


def assert_self_contained(found: Found) -> None:
    """Nothing is fetched: no address in any attribute or style, and the policy would refuse it anyway."""
    for name, value in found.attributes:
        held = name == "src" and value.startswith("data:image/")  # a picture that is in the page itself
        assert held or name not in {"src", "href", "srcset", "background", "action"}, (name, value[:80])
        assert not re.search(r"(https?:)?//", value), (name, value)
        assert not name.startswith("on"), (name, value)
    assert not any(re.search(r"url\(|@import|//", style) for style in found.styles)
    assert found.policy.startswith("default-src 'none'; ")
    allowed = found.policy.partition("script-src ")[2].split()
    digests = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in found.code]
    assert allowed == ([f"'sha256-{digest}'" for digest in digests] or ["'none'"])
