"""portkit init: settings with a gate, and a workflow that runs it."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(".", metavar="PATH", help="Repository to set up."),
    ci: str = typer.Option("", "--ci", metavar="SYSTEM", help="Write a workflow, too: github."),
    force: bool = typer.Option(False, "--force", help="Replace a workflow that is there."),
) -> None:
    """Write settings with a gate at today's coverage, and with --ci the workflow that runs it.

    Settings that are there already are never changed.
    """
    from pathlib import Path

    from portkit import scaffold

    for line in scaffold.run(Path(path), ci, force):
        typer.echo(line, err=True)
