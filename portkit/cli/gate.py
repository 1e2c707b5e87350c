"""portkit gate: whether a repository is as portable as its configuration asks for."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(".", metavar="PATH", help="Repository to look at."),
    junit: str = typer.Option("", "--junit", metavar="FILE", help="Write the checks as JUnit XML, too."),
    config: str = typer.Option(
        "", "--config", metavar="FILE", help="Settings file instead of the nearest one."
    ),
) -> None:
    """Check the gate in the settings: minimum coverage per phase, and parity reports without a failure.

    Exit codes: 0 every check passed, 1 one did not, 2 wrong call or configuration.
    """
    from pathlib import Path

    from portkit import config as settings
    from portkit import gate
    from portkit.errors import CheckFailed
    from portkit.files import write_atomically

    chosen = settings.load_file(Path(config)) if config else settings.load(Path(path))
    checks = gate.run(Path(path), chosen)
    for line in gate.lines(checks):
        typer.echo(line)
    if junit:
        write_atomically(Path(junit), gate.junit(checks))
    failed = [check for check in checks if not check.passed]
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(checks)} checks of the gate did not pass.")
