"""portkit undo: take a migration back, or a part of one."""

from __future__ import annotations

import typer


def command(
    what: list[str] = typer.Argument(
        None,
        metavar="[FOLDER] [PHASE|RULE|FILE]...",
        help="The folder that was migrated (default: here), and what to take back of it.",
    ),
    everything: bool = typer.Option(False, "--all", help="Take back all migrations, not only the last one."),
    force: bool = typer.Option(False, "--force", help="Also restore files that were changed since."),
) -> None:
    """Restore every byte that the last migration changed, or that all migrations changed in a part.

    A part is a phase (operator), a rule (PK302, or PK3), a file or a folder; two rules mean either,
    a rule and a file mean that rule in that file. What else was rewritten stays, and so does your own
    work; where one can't stand without the other, nothing is undone.

    Exit codes: 0 done; 2 nothing to undo, files that changed since,
    or a file that could not be restored.
    """
    from portkit import config, engine, history, manifest, partial
    from portkit.errors import UsageError
    from portkit.summary import problems
    from portkit.undo import undo

    root, chosen = partial.choice(what or [])
    if chosen.is_everything():
        done = undo(root, everything=everything, force=force)
    elif everything or force:
        raise UsageError("--all and --force are for whole migrations.", remedy="Leave them out.")
    else:
        done = partial.undo_part(root, chosen)
    for name in done.restored:
        typer.echo(f"restored {name}")
    for name in done.removed:
        typer.echo(f"removed {name}")
    for line in problems(done.failed):
        typer.echo(line, err=True)
    what_part = f"{done.runs} migration{'' if done.runs == 1 else 's'}"
    if not chosen.is_everything():
        what_part = f"{done.edits} edit{'' if done.edits == 1 else 's'}"
    typer.echo(f"Undone: {what_part}, {len(done.restored)} restored, {len(done.removed)} removed.", err=True)
    if history.folder(root).is_dir():
        if not manifest.exists(root) and history.began_with_migration(root):
            history.forget(root)
        else:
            history.note(root, "undo", engine.scan([root], config.load(root)).findings, " ".join(what or []))
    if done.failed:
        raise typer.Exit(2)
