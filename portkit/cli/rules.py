"""portkit rules: every rule that there is."""

from __future__ import annotations

import typer


def command(
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
    verify: bool = typer.Option(
        False, "--verify", help="Check names and signatures against the installed torch instead."
    ),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="With --verify: also what is not there."),
) -> None:
    """List every rule: its id, name, phase, support, and what it finds.

    With --verify, every name and signature of the tables behind the rules is looked up in the
    installed torch, and in the libraries that are installed, in a process of its own.
    Exit codes: 0 done, 1 a name or a signature is wrong, 2 wrong call, or there is no torch.
    """
    import shutil
    import sys

    from portkit import rulebook, verification
    from portkit.errors import CheckFailed, UsageError

    if format not in ("terminal", "json"):
        raise UsageError(f"There is no format {format} for rules.", remedy="Formats: json, terminal.")
    if verify:
        report = verification.verify()
        for line in verification.lines(report, verbose=verbose):
            typer.echo(line)
        wrong = len(report.of(verification.Verdict.WRONG))
        if wrong:
            raise CheckFailed(f"{wrong} facts of the tables do not hold for torch {report.torch}.")
        return
    if format == "json":
        typer.echo(rulebook.as_json())
        return
    tty = sys.stdout.isatty()
    width = shutil.get_terminal_size((120, 24)).columns if tty else 120
    typer.echo(rulebook.as_table(colour=tty, width=width))
