"""portkit parity: that the migrated program computes the same."""

from __future__ import annotations

import typer


def command(
    words: list[str] = typer.Argument(
        None,
        metavar="PATH | -- ARGUMENT",
        help="Repository whose operators are compared; with --training: arguments of the script.",
    ),
    level: str = typer.Option(
        "",
        "--level",
        help="operator, module or full-model (with --training: full-model).",
    ),
    training: str = typer.Option(
        "", "--training", metavar="SCRIPT", help="Compare the runs of a training script."
    ),
    original: str = typer.Option(
        "", "--original", metavar="DIR|FILE", help="Repository before the migration, or a recorded run of it."
    ),
    migrated: str = typer.Option(
        "", "--migrated", metavar="DIR|FILE", help="After it, or a recorded run (default: here)."
    ),
    stand_in: bool = typer.Option(
        False, "--stand-in", help="Run the original on the CPU with a stand-in for CUDA."
    ),
    spec: str = typer.Option(
        "", "--spec", metavar="FILE", help="TOML file that says how modules are built and called."
    ),
    trace: str = typer.Option(
        "", "--trace", metavar="FILE", help="Operators as a recorded run calls them (`portkit record`)."
    ),
    original_args: str = typer.Option(
        "", "--original-args", help="More arguments for the original alone, as one string."
    ),
    steps: int = typer.Option(20, "--steps", min=0, help="Optimizer steps; 0: until the script ends."),
    seed: int = typer.Option(1337, "--seed", help="Of Python, NumPy and torch, in both runs."),
    tolerance: float = typer.Option(
        0.0,
        "--tolerance",
        min=0.0,
        help="Largest relative difference of a loss; 0: measured, on runs with other rounding.",
    ),
    bisect: float = typer.Option(
        300.0, "--bisect", min=0.0, help="Seconds to look for the edit at fault; 0: don't."
    ),
    timeout: float = typer.Option(600.0, "--timeout", help="Seconds that each run may take."),
    operator: list[str] = typer.Option([], "--operator", help="These operators instead of those in use."),
    dtype: list[str] = typer.Option([], "--dtype", help="float32, bfloat16, float16 (default: all)."),
    implementation: list[str] = typer.Option(
        [], "--implementation", help="tile, composite or vendor (default: tile and composite)."
    ),
    format: str = typer.Option("terminal", "--format", help="terminal or json."),
    output: str = typer.Option("", "--output", "-o", metavar="FILE", help="Write the report to a file."),
) -> None:
    """Compare operators with a float64 oracle, modules or a training script with those before the migration.

    Modules are built as a spec says ([[module]] import = "file:Class", keywords, inputs), or by the script;
    both sides get one state_dict and the same inputs, in training and in evaluation.

    Where a run diverges, the first step, module and operator are named, and the edits of the migration are
    taken back, one after the other, in copies, until the one at fault is known.

    Every comparison also injects faults that have to be noticed; one that would not notice them is `blind`.
    Exit codes: 0 all pass, 1 something failed or is blind, 2 wrong call.
    """
    import shlex
    from pathlib import Path

    from portkit import history
    from portkit.errors import UsageError
    from portkit.parity import commands

    given = list(words or [])
    wanted = level or ("full-model" if training else "module" if spec else "operator")
    if wanted in ("module", "full-model") and not training and not spec:
        training = given.pop(0) if given else ""
    if wanted not in ("operator", "module", "full-model"):
        raise UsageError(f"There is no level {wanted}.", remedy="Levels: operator, module, full-model.")
    if wanted != "operator" and not training and not spec:
        raise UsageError(
            "No script is given.", remedy=f"portkit parity --level {wanted} SCRIPT --original DIR"
        )
    if wanted == "module":
        more = shlex.split(original_args)
        pair = commands.scripts(training, original, migrated or ".", given, more, standin=stand_in)
        document = commands.modules(pair, spec, seed=seed, timeout=timeout, bisect=bisect)
    elif wanted == "full-model":
        more = shlex.split(original_args)
        pair = commands.scripts(training, original, migrated or ".", given, more, standin=stand_in)
        document = commands.training(
            pair, seed=seed, steps=steps, tolerance=tolerance or None, timeout=timeout, bisect=bisect
        )
    elif len(given) > 1:
        raise UsageError("More than one path is given.", remedy="Compare one repository at a time.")
    elif trace:
        document = commands.recorded(Path(trace), implementation)
    else:
        document = commands.operators(Path(given[0] if given else "."), operator, dtype, implementation)
    place = Path((migrated or ".") if wanted != "operator" else (given[0] if given else "."))
    history.note(place if place.is_dir() else Path(), "parity", None, commands.outcome(document))
    commands.report(document, format, output)
