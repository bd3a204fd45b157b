"""Options that commands share, whether they read data or not."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting; may be repeated.")
]


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """The Spark settings of `--conf`."""
    return dict(_name_and_value(text) for text in conf or [])


def _name_and_value(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ValueError(f"--conf {text}: write NAME=VALUE")
    return name, value
