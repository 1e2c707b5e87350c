"""portkit migrate: rewrite code so that it no longer needs CUDA."""

from __future__ import annotations

import typer


def command(
    path: str = typer.Argument(..., metavar="PATH", help="A file or a folder; - is Python on stdin."),
    phase: str = typer.Option(..., "--phase", help="operator, module or full-model."),
    diff: bool = typer.Option(False, "--diff", help="Show what would change (the default)."),
    write: bool = typer.Option(False, "--write", help="Change the files; portkit undo takes it back."),
    check: bool = typer.Option(False, "--check", help="End with exit code 1 if anything would change."),
    patch: str = typer.Option("", "--patch", metavar="DIR", help="Write one patch file a phase to DIR."),
    interactive: bool = typer.Option(
        False, "--interactive", "-i", help="Ask about each rewrite, then write (or show) the accepted ones."
    ),
    output: str = typer.Option("", "--output", metavar="DIR", help="Write a migrated copy to DIR."),
    unsafe: bool = typer.Option(False, "--unsafe", help="Also rewrites that change behaviour somewhere."),
    annotate: bool = typer.Option(
        False, "--annotate", help="Put the remedy as a comment where a person has to act."
    ),
    vendor: bool = typer.Option(
        False, "--vendor", help="Write the device helpers into the tree instead of importing portkit."
    ),
    operators: str = typer.Option("", "--operators", help="cuda-bound, compute or all (setting: operators)."),
    select: list[str] = typer.Option([], "--select", metavar="ID", help="Only these rules (PK101, or PK1)."),
    ignore: list[str] = typer.Option([], "--ignore", metavar="ID", help="Not these rules."),
    config: str = typer.Option("", "--config", metavar="FILE", help="Instead of the nearest settings file."),
    force: bool = typer.Option(False, "--force", help="Write although the git tree has uncommitted changes."),
    jobs: int = typer.Option(0, "--jobs", min=0, help="Processes; 0: as many as there are cores, at most 8."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="List everything that is left."),
    strict: bool = typer.Option(False, "--strict", help="Exit code 4 if a file can't be parsed."),
) -> None:
    """Move code off CUDA, phase by phase: show the change, or write it.

    Each phase includes those before it. Nothing of the code is imported or run.
    With --interactive nothing is written before the last answer; what goes together is kept together.

    Exit codes: 0 done; 1 --check, and something would change;
    2 wrong call, or a file that could not be written;
    4 --strict, and a file that could not be parsed.
    """
    from portkit import migration

    code = migration.run(
        migration.Request(
            path=path,
            phase=phase,
            mode=migration.mode(
                diff=diff, write=write, check=check, output=output, patch=patch, interactive=interactive
            ),
            output=output,
            patch=patch,
            interactive=interactive,
            vendor=vendor,
            unsafe=unsafe,
            annotate=annotate,
            operators=operators,
            select=select,
            ignore=ignore,
            config=config,
            force=force,
            jobs=jobs,
            verbose=verbose,
            strict=strict,
        )
    )
    if code:
        raise typer.Exit(code)
