"""portkit report: everything about a repository on one HTML page."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(".", metavar="PATH", help="Repository to look at."),
    original: str = typer.Option("", "--original", metavar="DIR", help="Before the migration, for the diff."),
    parity: str = typer.Option("", "--parity", metavar="FILE", help="What `portkit parity` wrote as JSON."),
    output: str = typer.Option("portkit-report.html", "--output", "-o", metavar="FILE", help="The page."),
) -> None:
    """Put scan, changes, parity and training curves on one self-contained HTML page."""
    from pathlib import Path

    from portkit import config, diffs, engine
    from portkit.files import write_atomically
    from portkit.parity import document
    from portkit.reports import html

    result = engine.scan([path], config.load(Path(path)))
    found = document.read(Path(parity)) if parity else None
    extras = html.Extras(
        diffs=diffs.between(Path(original), Path(path)) if original else (),
        parity=found,
        training=found["training"] if found else None,
    )
    write_atomically(Path(output), html.render(result, extras=extras).encode())
    typer.echo(output)
