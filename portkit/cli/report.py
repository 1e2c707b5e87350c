"""portkit report: everything about a repository on one HTML page."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(".", metavar="PATH", help="Repository to look at."),
    original: str = typer.Option("", "--original", metavar="DIR", help="Before the migration, for the diff."),
    parity: list[str] = typer.Option(
        [], "--parity", metavar="FILE", help="What `portkit parity` wrote as JSON; once for each file."
    ),
    trace: list[str] = typer.Option(
        [], "--trace", metavar="FILE", help="A run recorded with --timeline; once for each file."
    ),
    output: str = typer.Option("portkit-report.html", "--output", "-o", metavar="FILE", help="The page."),
) -> None:
    """Put scan, changes, parity, training curves and recorded runs on one self-contained HTML page.

    The timeline of each recorded run is written beside it, too, as PAGE.TRACE.perfetto.json, which Perfetto
    and Chrome open.
    """
    from pathlib import Path

    from portkit import config, diffs, engine, history
    from portkit.files import target, write_atomically
    from portkit.parity import document, recorded
    from portkit.reports import html

    page = target(output)
    found = document.merged([document.read(Path(name)) for name in parity])
    runs = [recorded.of(Path(name)) for name in trace]
    changes = diffs.between(Path(original), Path(path)) if original else []
    result = engine.scan([path], config.load(Path(path)), cache=True)
    before = engine.scan([original], config.load(Path(original)), cache=True).findings if original else []
    points, _ = history.read(Path(path))
    extras = html.Extras(
        diffs=changes,
        rewrites=before,
        history=points,
        parity=found,
        trainings=found["trainings"],
        runs=recorded.exported(runs, page),
    )
    text = html.render(result, extras=extras)
    write_atomically(page, text.encode("utf-8", "backslashreplace"))
    typer.echo(output)
