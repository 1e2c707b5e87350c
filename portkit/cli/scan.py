"""portkit scan: what ties a repository to CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from portkit import plugins

if TYPE_CHECKING:
    from portkit.engine import ScanResult

_FORMATS = ", ".join(plugins.names("portkit.reports"))


def command(
    paths: list[str] = typer.Argument(
        ..., metavar="PATH...", help="Files and folders; - is Python on stdin."
    ),
    format: str = typer.Option("terminal", "--format", help=f"One of {_FORMATS}."),
    output: str = typer.Option("", "--output", "-o", metavar="FILE", help="Write the report to a file."),
    select: list[str] = typer.Option([], "--select", metavar="ID", help="Only these rules (PK101, or PK1)."),
    ignore: list[str] = typer.Option([], "--ignore", metavar="ID", help="Not these rules."),
    config: str = typer.Option(
        "", "--config", metavar="FILE", help="Settings file instead of the nearest one."
    ),
    diff_base: str = typer.Option(
        "", "--diff-base", metavar="REV", help="Only findings added since the branch left this git revision."
    ),
    baseline: str = typer.Option(
        "", "--baseline", metavar="FILE", help="Tell new findings from those known in this file."
    ),
    write_baseline: str = typer.Option(
        "", "--write-baseline", metavar="FILE", help="Write every finding to this file, as known."
    ),
    no_gitignore: bool = typer.Option(
        False, "--no-gitignore", help="Look also at files that .gitignore names."
    ),
    no_cache: bool = typer.Option(
        False,
        "--no-cache",
        envvar="PORTKIT_NO_CACHE",
        help="Look at every file anew, and keep nothing for the next scan.",
    ),
    jobs: int = typer.Option(0, "--jobs", min=0, help="Processes; 0: as many as there are cores, at most 8."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="List every finding."),
    strict: bool = typer.Option(
        False, "--strict", help="End with exit code 4 if a file could not be parsed."
    ),
) -> None:
    """Find what ties code to CUDA, by migration phase, and say what to do next.

    Nothing of the scanned code is imported or run. Exit codes: 0 scanned, 2 wrong call or
    a path that is not there (the others are scanned all the same), 4 --strict and a file
    that could not be parsed.
    """
    import os
    import shutil
    import sys
    from dataclasses import replace

    from portkit import baseline as known
    from portkit import config as settings
    from portkit import engine, history, progress, reports, since
    from portkit.discover import project_root
    from portkit.errors import UsageError
    from portkit.files import target, write_atomically

    reports.check(format)
    report = target(output) if output else None
    known_file = target(write_baseline) if write_baseline else None
    if diff_base and write_baseline:
        remedy = "Leave one of the two options out."
        raise UsageError("A baseline of added findings only would make all others new.", remedy=remedy)
    missing = [path for path in paths if path != "-" and not os.path.lexists(path)]
    if len(missing) < len(paths):  # else the engine says so, and stops
        paths = [path for path in paths if path not in missing]
        for path in missing:
            typer.echo(f"portkit: {path}: There is no such file or folder. Check the path.", err=True)
    first = next((Path(path) for path in paths if path != "-"), Path())
    chosen = settings.load_file(Path(config)) if config else settings.load(first)
    chosen = chosen.with_choice(_split(select), _split(ignore))
    chosen = replace(chosen, respect_gitignore=chosen.respect_gitignore and not no_gitignore)
    stdin = sys.stdin.buffer.read() if "-" in paths else b""
    bases = since.base(paths, diff_base) if diff_base else []
    if baseline:
        known.read(Path(baseline))
    root = project_root(paths, chosen)
    result = engine.scan(
        paths,
        chosen,
        jobs=jobs or None,
        stdin=stdin,
        progress=progress.bar(),
        root=root,
        cache=not no_cache,
    )
    whole = not (select or ignore or config or diff_base or no_gitignore)
    if len(paths) == 1 and whole:
        history.note(Path(paths[0]), "scan", result.findings)
    _baselines(result, Path(baseline) if baseline else None, known_file)
    if diff_base:
        since.narrow(result, diff_base, bases)
    tty = sys.stdout.isatty() and not output
    width = shutil.get_terminal_size((100, 24)).columns if tty else 100
    text = reports.render(format, result, verbose=verbose, colour=tty, width=width)
    if report is not None:
        write_atomically(report, text.encode(errors="backslashreplace"))
    else:  # a terminal has an encoding of its own; what programs read is UTF-8
        typer.echo(text if tty else text.encode(errors="backslashreplace"), nl=False)
    if missing:
        raise typer.Exit(2)
    if strict and result.unparsed:
        raise typer.Exit(4)


def _baselines(result: ScanResult, old: Path | None, new: Path | None) -> None:
    """Compare a scan with a baseline, and write another (or the same one anew)."""
    from portkit import baseline

    if old is not None:
        result.baseline = baseline.compare(result, old)
    if new is not None:
        count = baseline.write(new, result.findings)
        typer.echo(f"portkit: {new}: {count} findings are known now", err=True)


def _split(values: list[str]) -> list[str]:
    """`--select PK101,PK2 --select PK3` → ["PK101", "PK2", "PK3"]."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]
