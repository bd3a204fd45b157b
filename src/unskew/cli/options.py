"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting; may be repeated.")
]


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """The Spark settings of `--conf`."""
    return dict(_setting(text) for text in conf or [])


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ValueError(f"--conf {text}: write NAME=VALUE")
    return name, value
