"""portkit init: settings with a gate, and a workflow that runs it."""

from __future__ import annotations

from pathlib import Path

import typer

_FOLDER = Path(__file__).parents[1] / "templates" / "ci"
_SYSTEMS = ", ".join(sorted(file.name.partition(".")[0] for file in _FOLDER.glob("*.j2")))


def command(
    path: str = typer.Argument(".", metavar="PATH", help="Repository to set up."),
    ci: str = typer.Option("", "--ci", metavar="SYSTEM", help=f"Write a workflow, too: {_SYSTEMS}."),
    force: bool = typer.Option(False, "--force", help="Replace a workflow that is there."),
) -> None:
    """Write settings with a gate at today's coverage, and with --ci the workflow that runs it.

    Settings that are there already are never changed.
    """
    from portkit import scaffold

    for line in scaffold.run(Path(path), ci, force):
        typer.echo(line, err=True)
