"""portkit parity: that the migrated program computes the same."""

from __future__ import annotations

import typer


def command(
    words: list[str] = typer.Argument(
        None,
        metavar="PATH | -- ARGUMENT",
        help="Repository whose operators are compared; with --training: arguments of the script.",
    ),
    training: str = typer.Option(
        "", "--training", metavar="SCRIPT", help="Compare the runs of a training script."
    ),
    original: str = typer.Option("", "--original", metavar="DIR", help="Repository before the migration."),
    migrated: str = typer.Option("", "--migrated", metavar="DIR", help="After it (default: here)."),
    original_args: str = typer.Option(
        "", "--original-args", help="More arguments for the original alone, as one string."
    ),
    steps: int = typer.Option(20, "--steps", min=0, help="Optimizer steps; 0: until the script ends."),
    seed: int = typer.Option(1337, "--seed", help="Of Python, NumPy and torch, in both runs."),
    tolerance: float = typer.Option(1e-3, "--tolerance", help="Largest relative difference of a loss."),
    timeout: float = typer.Option(600.0, "--timeout", help="Seconds that each run may take."),
    operator: list[str] = typer.Option([], "--operator", help="These operators instead of those in use."),
    dtype: list[str] = typer.Option([], "--dtype", help="float32, bfloat16, float16 (default: all)."),
    implementation: list[str] = typer.Option(
        [], "--implementation", help="tile, composite or vendor (default: tile and composite)."
    ),
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
    output: str = typer.Option("", "--output", "-o", metavar="FILE", help="Write the report to a file."),
) -> None:
    """Compare operators with a float64 oracle, or a training script before and after the migration.

    Every comparison also injects faults that have to be noticed; one that would not notice them is `blind`.
    Exit codes: 0 all pass, 1 something failed or is blind, 2 wrong call.
    """
    import shlex
    from pathlib import Path

    from portkit import history
    from portkit.errors import UsageError
    from portkit.parity import commands

    given = words or []
    if training:
        more = shlex.split(original_args)
        scripts = commands.scripts(training, original, migrated or ".", given, more)
        document = commands.training(scripts, seed=seed, steps=steps, tolerance=tolerance, timeout=timeout)
    elif len(given) > 1:
        raise UsageError("More than one path is given.", remedy="Compare one repository at a time.")
    else:
        document = commands.operators(Path(given[0] if given else "."), operator, dtype, implementation)
    place = Path((migrated or ".") if training else (given[0] if given else "."))
    history.note(place, "parity", None, commands.outcome(document))
    commands.report(document, format, output)
