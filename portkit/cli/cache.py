"""portkit cache: what portkit keeps on disk, and taking it away."""

from __future__ import annotations

import typer


def command(
    clear: bool = typer.Option(False, "--clear", help="Remove it."),
    kind: str = typer.Option("", "--kind", metavar="KIND", help="Only kernels, tuning or scans."),
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
) -> None:
    """Show what is kept on disk: compiled kernels, results of tuning, results of scans; --clear removes it.

    PORTKIT_CACHE_DIR names another folder, PORTKIT_CACHE_SIZE the most bytes that each kind may take.
    Exit codes: 0 done, 1 something could not be removed, 2 wrong call.
    """
    import json

    from portkit import keeping
    from portkit.errors import CheckFailed, UsageError

    if format not in ("terminal", "json"):
        raise UsageError(f"There is no format {format} for cache.", remedy="Formats: json, terminal.")
    report = keeping.examine(kind)
    failed = keeping.clear(report) if clear else []
    done = {"cleared": clear and not failed}
    if format == "json":
        typer.echo(json.dumps({"schema_version": 1, **report.as_data(), **done}, indent=2))
    else:
        typer.echo("\n".join(report.rows(cleared=clear)))
    if failed:
        raise CheckFailed(f"{len(failed)} files could not be removed, the first of them {failed[0]}.")
