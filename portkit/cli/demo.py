"""portkit demo: the whole journey on a small repository."""

from __future__ import annotations

import typer


def command(
    output: str = typer.Option("portkit-demo", "--output", "-o", metavar="DIR", help="Where to put it."),
    steps: int = typer.Option(20, "--steps", min=2, help="Training steps of each run."),
) -> None:
    """Scan, migrate, train and prove a small CUDA-bound GPT, and write the HTML report.

    Needs torch for the training only. Exit codes: 0 all held, 1 something did not, 2 wrong call.
    """
    from pathlib import Path

    from portkit import demo
    from portkit.errors import CheckFailed

    made = demo.run(Path(output), steps)
    page = demo.write_report(made)
    typer.echo(str(page))
    demo.say("Next, on your own repository: portkit scan PATH, then portkit migrate PATH --phase operator")
    if demo.failed(made):
        raise CheckFailed("Something did not hold.", place=str(page), remedy="The report says what.")
