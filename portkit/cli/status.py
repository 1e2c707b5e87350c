"""portkit status: where a repository stands on its way off CUDA."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(".", metavar="PATH", help="The repository, or a folder in it."),
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
) -> None:
    """Show the phase that a repository is in, what is left in each, and the burn-down since the first scan.

    The history is in .portkit/history.jsonl, one line for each scan, migration, undo, parity and gate run
    of the folder; it begins with the first migration that is written. Nothing is written here.
    """
    import shutil
    import sys
    from pathlib import Path

    from portkit import progress, status
    from portkit.errors import UsageError

    if format not in ("terminal", "json"):
        raise UsageError(f"There is no format {format} for status.", remedy="Formats: json, terminal.")
    found = status.of(Path(path), progress=progress.bar())
    if format == "json":
        typer.echo(status.as_json(found).encode())
        return
    tty = sys.stdout.isatty()
    width = shutil.get_terminal_size((100, 24)).columns if tty else 100
    text = status.as_text(found, colour=tty, width=width)
    typer.echo(text if tty else text.encode())
