"""The command line: one file per command.

Results go to standard output, and with --json nothing else does; progress and errors go to standard error. A
user's mistake is one line and exit code 2.
"""

from __future__ import annotations

from typing import Annotated

import typer

from unskew.cli import demo, diagnose, doctor, plan, planners, run, watch

app = typer.Typer(
    name="unskew",
    help="Measured, explicit key placement for skewed Spark jobs.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
for command in (
    diagnose.diagnose,
    plan.plan,
    run.run,
    watch.watch,
    demo.demo,
    planners.planners,
    doctor.doctor,
):
    app.command()(command)


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda asked: _version(asked), help="Print the version."
        ),
    ] = False,
) -> None:
    """Measured, explicit key placement for skewed Spark jobs."""


def _version(asked: bool) -> None:
    if asked:
        from unskew import __version__

        print(f"unskew {__version__}")
        raise typer.Exit
