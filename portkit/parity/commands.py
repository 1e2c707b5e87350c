"""What `portkit parity` does: choose what to compare, compare it, report it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from portkit import config, engine
from portkit.errors import CheckFailed, UsageError
from portkit.files import write_atomically
from portkit.parity import cases, document, operator, render, trace
from portkit.parity import modules as proving
from portkit.parity import training as runs
from portkit.parity.trace import Trace
from portkit.parity.training import Script

FORMATS = ("terminal", "json")


def say(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)


def operators(
    path: Path, names: Sequence[str], dtypes: Sequence[str], implementations: Sequence[str]
) -> dict[str, Any]:
    """Compare the operators named, or else those that the repository at `path` uses.

    Raises UsageError for an unknown operator, dtype or implementation.
    """
    _known("dtype", dtypes, cases.DTYPES)
    _known("implementation", implementations, cases.IMPLEMENTATIONS)
    wanted = cases.chosen(names or cases.used(engine.scan([path], config.load(path))))
    if not wanted:
        say(f"{path} uses no operator that portkit has; --operator NAME compares one anyway")
    rows = operator.run(
        wanted,
        dtypes=dtypes or cases.DTYPES,
        implementations=implementations or cases.OURS,
        progress=say,
    )
    return document.build(rows, None)


def _known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"There is no {what} {name}.", remedy=f"Use one of {', '.join(known)}.")


def recorded(file: Path, implementations: Sequence[str]) -> dict[str, Any]:
    """Compare operators as they were called in a recorded run.  Raises UsageError for a damaged trace."""
    _known("implementation", implementations, cases.IMPLEMENTATIONS)
    require_torch()
    rows, left = operator.recorded(trace.read(file).run, implementations=implementations or cases.OURS)
    for line in left:
        say(f"left out: {line}")
    if not rows:
        say("the recorded run calls no operator that portkit has")
    return document.build(rows, None)


def scripts(
    script: str,
    original: str,
    migrated: str,
    arguments: Sequence[str],
    original_arguments: Sequence[str],
    *,
    standin: bool = False,
) -> tuple[Script | Trace, Script | Trace]:
    """The training script in both repositories, or what was recorded of it.

    Raises UsageError where the original is not given, and for a damaged trace.
    """
    if not original:
        raise UsageError(
            "The original repository is not given.",
            remedy="Say --original DIR; `git worktree add DIR COMMIT` makes one from before the migration.",
        )
    common = tuple(arguments)
    one = Script(Path(original), script, (*common, *original_arguments), label="original", standin=standin)
    other = Script(Path(migrated), script, common, label="migrated")
    return _side(one), _side(other)


def _side(script: Script) -> Script | Trace:
    return trace.read(script.root) if script.root.is_file() else script


def record(
    script: Script,
    output: Path,
    *,
    seed: int,
    steps: int,
    timeout: float,
    noise: bool,
    device: str,
    timeline: bool = False,
) -> None:
    """Record a run of a script in a file.  Raises CheckFailed where it does not run."""
    require_torch()
    options = runs.Options(seed, steps, None if noise else 1e-3, timeout)
    made = runs.record(script, options, device=device, timeline=timeline, progress=say)
    if made.run.error or not made.run.losses:
        raise CheckFailed(
            f"The script does not run: {made.run.error or 'it makes no backward pass'}",
            place=str(script.root / script.script),
            remedy="Nothing was recorded. Arguments of the script stand after --.",
        )
    trace.write(made, output)
    events = f", {len(made.run.timeline['events'])} events" if made.run.timeline else ""
    say(f"{len(made.run.losses)} steps and {len(made.run.calls)} calls{events}: {output}")


def training(
    pair: tuple[Script | Trace, Script | Trace],
    *,
    seed: int,
    steps: int,
    tolerance: float | None,
    timeout: float,
    bisect: float = 0.0,
) -> dict[str, Any]:
    """Run and compare the training script in both repositories."""
    require_torch()
    report = runs.compare(
        *pair, seed=seed, steps=steps, tolerance=tolerance, timeout=timeout, bisect=bisect, progress=say
    )
    if report.status.value == "skipped":
        say(
            "The original needs arguments with which it runs on a CPU; "
            'give them with --original-args "--device=cpu". '
            "Or else --stand-in lets it run without CUDA, or `portkit record` records it where there is CUDA."
        )
    return document.build((), report)


def modules(
    pair: tuple[Script | Trace, Script | Trace],
    spec: str,
    *,
    seed: int,
    timeout: float,
    bisect: float,
) -> dict[str, Any]:
    """Compare modules of a spec, or those that the training script calls, in both repositories."""
    require_torch()
    one, other = pair
    if isinstance(one, Trace) or isinstance(other, Trace):
        raise UsageError(
            "Modules are built and run here; a recorded run holds none.",
            remedy="Give both repositories; --stand-in runs one for CUDA on the CPU.",
        )
    entries = proving.spec(Path(spec)) if spec else None
    rows = proving.compare(one, other, entries, seed=seed, timeout=timeout, seconds=bisect, progress=say)
    return document.build((), None, rows)


def require_torch() -> None:
    """Raises UsageError if torch is not installed."""
    if not cases.torch_installed():
        raise UsageError("Training needs torch.", remedy="pip install 'portkit[torch]'")


def report(found: Mapping[str, Any], form: str, output: str) -> None:
    """Write a document to a file or to stdout.  Raises CheckFailed if a comparison failed or is blind."""
    _known("format", [form], FORMATS)
    tty = sys.stdout.isatty() and not output
    if form == "json":
        text = json.dumps(found, indent=2, allow_nan=False)
    else:
        width = shutil.get_terminal_size((100, 24)).columns if tty else 140
        text = render.terminal(found, colour=tty, width=width)
    if output:
        write_atomically(Path(output), (text + "\n").encode())
    else:
        print(text, flush=True)
    bad = document.failures(found)
    if bad:
        raise CheckFailed(
            f"{len(bad)} of {len(list(document.verdicts(found)))} comparisons did not pass.",
            remedy="The table says which, and where they differ first.",
        )


def outcome(found: Mapping[str, Any]) -> str:
    """How many comparisons of a document passed, in words."""
    verdicts = [status for _, status, _ in document.verdicts(found)]
    return f"{verdicts.count('pass')} of {len(verdicts)} passed"
