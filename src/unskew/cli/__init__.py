"""The command line: one file per command, each listed once in `COMMANDS`.

Results go to standard output, and with --json nothing else does; progress and errors go to standard error. A
user's mistake is one line and exit code 2.
"""

from __future__ import annotations

from typing import Annotated

import typer

from unskew.cli import demo, diagnose, doctor, plan, planners, run, watch

COMMANDS = (
    diagnose.diagnose,
    plan.plan,
    run.run,
    watch.watch,
    demo.demo,
    planners.planners,
    doctor.doctor,
)
"""The functions behind the commands, in the order of `unskew --help`."""

app = typer.Typer(
    name="unskew",
    help="Measured, explicit key placement for skewed Spark jobs.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
for command in COMMANDS:
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from unskew import __version__

        print(f"unskew {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
]


@app.callback()
def main(version: VersionOption = False) -> None:
    """Measured, explicit key placement for skewed Spark jobs."""
