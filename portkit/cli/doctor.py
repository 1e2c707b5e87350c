"""portkit doctor: what this machine can run."""

from __future__ import annotations

import typer


def command(
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
) -> None:
    """Show what this machine can run: targets, torch, devices, threads, cache; and what is wrong."""
    import json

    from portkit.errors import UsageError
    from portkit.runtime import checkup

    if format not in ("terminal", "json"):
        raise UsageError(f"There is no format {format} for doctor.", remedy="Formats: json, terminal.")
    report = checkup.examine()
    typer.echo(json.dumps(report, indent=2) if format == "json" else checkup.render(report))
    if any(problem["severity"] == "error" for problem in report["problems"]):
        raise typer.Exit(1)
