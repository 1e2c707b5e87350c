"""portkit undo: take a migration back."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(".", metavar="[PATH]", help="The folder that was migrated."),
    everything: bool = typer.Option(False, "--all", help="Take back all migrations, not only the last one."),
    force: bool = typer.Option(False, "--force", help="Also restore files that were changed since."),
) -> None:
    """Restore every byte that the last migration changed.

    Exit codes: 0 done; 2 nothing to undo, files that changed since,
    or a file that could not be restored.
    """
    from pathlib import Path

    from portkit.summary import problems
    from portkit.undo import undo

    done = undo(Path(path), everything=everything, force=force)
    for name in done.restored:
        typer.echo(f"restored {name}")
    for name in done.removed:
        typer.echo(f"removed {name}")
    for line in problems(done.failed):
        typer.echo(line, err=True)
    typer.echo(
        f"Undone: {done.runs} migration{'' if done.runs == 1 else 's'}, "
        f"{len(done.restored)} restored, {len(done.removed)} removed.",
        err=True,
    )
    if done.failed:
        raise typer.Exit(2)
