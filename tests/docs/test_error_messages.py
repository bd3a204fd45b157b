"""An error that a user can cause says what to do next, or what is allowed there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.docs.pages import ROOT

FOLDERS = ("cli", "eventlog", "jobs", "report", "spark", "streaming/api", "streaming/driver")

VERBS = [
    "add",
    "ask",
    "call",
    "cast",
    "check",
    "choose",
    "convert",
    "copy",
    "create",
    "delete",
    "drop",
    "give",
    "install",
    "leave",
    "let",
    "make",
    "measure",
    "move",
    "name",
    "open",
    "pass",
    "pip",
    "plan",
    "plan_chain",
    "put",
    "raise",
    "read",
    "rename",
    "report",
    "restart",
    "restore",
    "run",
    "save",
    "say",
    "see",
    "set",
    "start",
    "stop",
    "take",
    "turn",
    "unskew",
    "upgrade",
    "use",
    "wait",
    "write",
]
NEXT = re.compile(
    rf"[:;,(] ?(?:or |so |to |then |please )?(?:{'|'.join(VERBS)})\b|^(?:{'|'.join(VERBS)})\b"
    r"|, not |\bneeds?\b|\bat (?:least|most)\b|\bone of\b|\bhas to\b|\bmust\b|\btakes?\b"
    r"|\bthe columns are\b|\bits options are\b"
)

HAS_A_REASON_FROM_ELSEWHERE = {
    # what Spark, Arrow or the system said follows, and that is what to act on
    "checkpoint … cannot be reached: …",
    "the rows cannot be ordered: …",
}
SAYS_IT_IN_WORDS_OF_ITS_OWN = {
    "checkpoint: this setting is missing: a stream keeps its state there",
    "there is no column …: the positions of the … columns start with 1",
    "planner … splits keys over slots: …",
    "there is no column …: …the columns are …",
}
OF_OUR_OWN_MAKING = {
    "rows name the series …, which are missing from series=…",
    "… heavy keys cannot be laid out: too many of their hashes collide",
    "… is no version of Spark: two numbers with a point between them are expected",
}
"""Checks of unskew on itself."""
EXCEPTIONS = HAS_A_REASON_FROM_ELSEWHERE | SAYS_IT_IN_WORDS_OF_ITS_OWN | OF_OUR_OWN_MAKING


def messages(folder: str) -> Iterator[tuple[str, str]]:
    """Every ValueError that is raised with words, with … in place of each value, and where."""
    for file in sorted((ROOT / "src" / "unskew" / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = template(node.exc.args[0])
                if ast.unparse(node.exc.func) == "ValueError" and re.search(r"[a-z]{3}", text):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def template(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return template(node.left) + template(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "…"


def test_an_error_says_what_to_do_next() -> None:
    found = [message for folder in FOLDERS for message in messages(folder)]
    assert len(found) > 100
    silent = [f"{where}: {text}" for where, text in found if not NEXT.search(text) and text not in EXCEPTIONS]
    assert silent == []


def test_the_exceptions_are_still_raised() -> None:
    texts = {text for folder in FOLDERS for _, text in messages(folder)}
    assert texts >= EXCEPTIONS


def test_the_check_would_notice_an_error_without_advice() -> None:
    assert not NEXT.search("the thing … is broken")
