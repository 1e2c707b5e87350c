"""portkit explain: what a rule finds, why it matters, and what takes its place."""

from __future__ import annotations

import typer


def command(
    rule: str = typer.Argument(..., metavar="PKxxx", help="Id or name of a rule."),
) -> None:
    """Explain one rule."""
    import shutil
    import sys

    from portkit import rulebook

    tty = sys.stdout.isatty()
    width = min(100, shutil.get_terminal_size((100, 24)).columns) if tty else 100
    typer.echo(rulebook.explain(rule, colour=tty, width=width))
