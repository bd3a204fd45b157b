"""docs/llms.txt is what the script makes of the docs, and leaves no page and no name out."""

from __future__ import annotations

import re

import unskew
from scripts.llms import DOCS, FILE, SITE, TAKEN_FROM_ELSEWHERE, rendered


def test_the_file_is_what_the_docs_say() -> None:
    assert FILE.read_text("utf-8") == rendered(), "run `make docs-llms`"


def test_every_page_is_listed_once_and_said_to_be_about_something() -> None:
    lines = re.findall(rf"^- \[[^\]]+\]\({re.escape(SITE)}([\w./-]+)\): (.+)$", FILE.read_text("utf-8"), re.M)
    listed = [page for page, _ in lines]
    there = {page.name for page in DOCS.glob("*.md")} - TAKEN_FROM_ELSEWHERE - {"index.md"}
    assert sorted(page for page in listed if "/" not in page) == sorted(there)
    assert [page for page, text in lines if len(text) < 20] == []


def test_every_public_name_is_explained() -> None:
    explained = dict(re.findall(r"^- `unskew\.(\w+)`: (.+)$", FILE.read_text("utf-8"), re.M))
    assert sorted(explained) == sorted(unskew.__all__)
    assert [name for name, text in explained.items() if len(text) < 15] == []


def test_it_says_what_to_write_instead_of_plain_spark() -> None:
    text = FILE.read_text("utf-8")
    assert '- `events.join(users, "user")` → `unskew.join(events, users, "user")`' in text
