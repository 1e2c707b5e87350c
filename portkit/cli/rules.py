"""portkit rules: every rule that there is."""

from __future__ import annotations

import typer


def command(
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
) -> None:
    """List every rule: its id, name, phase, support, and what it finds."""
    import shutil
    import sys

    from portkit import rulebook
    from portkit.errors import UsageError

    if format not in ("terminal", "json"):
        raise UsageError(f"There is no format {format} for rules.", remedy="Formats: json, terminal.")
    if format == "json":
        typer.echo(rulebook.as_json())
        return
    tty = sys.stdout.isatty()
    width = shutil.get_terminal_size((120, 24)).columns if tty else 120
    typer.echo(rulebook.as_table(colour=tty, width=width))
