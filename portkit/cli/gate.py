"""portkit gate: whether a repository is as portable as its configuration asks for."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(".", metavar="PATH", help="Repository to look at."),
    junit: str = typer.Option("", "--junit", metavar="FILE", help="Write the checks as JUnit XML, too."),
    sarif: str = typer.Option(
        "", "--sarif", metavar="FILE", help="Write the findings and the checks as SARIF, too."
    ),
    no_parity: bool = typer.Option(
        False, "--no-parity", help="Leave parity and max-slowdown out: quick enough for every commit."
    ),
    config: str = typer.Option(
        "", "--config", metavar="FILE", help="Settings file instead of the nearest one."
    ),
) -> None:
    """Check the gate in the settings: [tool.portkit.gate].

    coverage: minimum in percent per phase. baseline: no finding that is not in this file.
    parity: reports that have to hold, as a list or per phase. max-slowdown: of a training step.
    Suppressions whose end date is over count again, and are named.

    Exit codes: 0 every check passed, 1 one did not, 2 wrong call or configuration.
    """
    from pathlib import Path

    from portkit import config as settings
    from portkit import gate, gate_output
    from portkit.errors import CheckFailed
    from portkit.files import target, write_atomically

    reports = [target(name) if name else None for name in (junit, sarif)]
    chosen = settings.load_file(Path(config)) if config else settings.load(Path(path))
    outcome = gate.run(Path(path), chosen, parity=not no_parity)
    for line in gate_output.lines(outcome.checks):
        typer.echo(line.encode("utf-8", "backslashreplace").decode())
    if reports[0] is not None:
        write_atomically(reports[0], gate_output.junit(outcome.checks))
    if reports[1] is not None:
        write_atomically(reports[1], gate_output.sarif(outcome).encode())
    if outcome.failed:
        raise CheckFailed(f"{len(outcome.failed)} of {len(outcome.checks)} checks of the gate did not pass.")
