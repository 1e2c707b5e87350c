"""portkit record: one run of a training script in a file, to compare with on another machine."""

from __future__ import annotations

import typer


def command(
    script: str = typer.Argument(..., metavar="SCRIPT", help="Training script, relative to the repository."),
    arguments: list[str] = typer.Argument(None, metavar="-- ARGUMENT", help="Arguments of the script."),
    output: str = typer.Option("portkit.trace", "--output", "-o", metavar="FILE", help="Where to write it."),
    root: str = typer.Option(".", "--root", metavar="DIR", help="The repository."),
    steps: int = typer.Option(20, "--steps", min=0, help="Optimizer steps; 0: until the script ends."),
    seed: int = typer.Option(1337, "--seed", help="Of Python, NumPy and torch."),
    timeout: float = typer.Option(600.0, "--timeout", help="Seconds that a run may take."),
    stand_in: bool = typer.Option(False, "--stand-in", help="Run a script for CUDA on the CPU."),
    noise: bool = typer.Option(
        True, "--noise/--no-noise", help="Two more runs with other rounding: they say what is noise."
    ),
    timeline: bool = typer.Option(
        False, "--timeline", help="Profile some steps, too, and measure what this machine can do at best."
    ),
    cpu: bool = typer.Option(False, "--cpu", help="Hide the accelerators of this machine."),
) -> None:
    """Record a run: curves, the calls of modules and operators in its first steps, what rounding changes.

    The file holds lines of JSON and a checksum, no code and no pickles. `portkit parity --original FILE`
    compares the migrated program with it on another machine; `--level operator --trace FILE` compares the
    operators that it calls; `portkit report --trace FILE` draws the timeline.
    Exit codes: 0 recorded, 1 the script does not run, 2 wrong call.
    """
    from pathlib import Path

    from portkit.parity import commands
    from portkit.parity.training import Script

    made = Script(Path(root), script, tuple(arguments or ()), label=script, standin=stand_in)
    device = "cpu" if cpu or stand_in else "as it is"
    commands.record(
        made,
        Path(output),
        seed=seed,
        steps=steps,
        timeout=timeout,
        noise=noise,
        device=device,
        timeline=timeline,
    )
