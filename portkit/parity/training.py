"""The original and the migrated training script, run on the CPU from one seed, and their curves compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from portkit.errors import UsageError
from portkit.parity import curves
from portkit.parity.compare import Status, plain
from portkit.parity.curves import Divergence

CONTROL_STEPS = 5


@dataclass(frozen=True)
class Script:
    """One training script and how to start it."""

    root: Path  # working directory
    script: str  # relative to root
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    label: str = ""


@dataclass(frozen=True)
class Run:
    """What one run gave."""

    losses: tuple[float, ...]
    norms: tuple[float, ...]
    error: str  # why it ended too early; empty if it did not
    seconds: float = field(default=0.0, compare=False)  # per optimizer step, median without the first

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "losses": [plain(v) for v in self.losses],
            "norms": [plain(v) for v in self.norms],
            "error": self.error,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class TrainingReport:
    """Two runs, and what their comparison came to."""

    status: Status
    reason: str
    script: str
    labels: tuple[str, str]
    seed: int
    tolerance: float
    original: Run | None
    migrated: Run | None
    divergence: Divergence | None = None
    controls: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "status": self.status.value,
            "reason": self.reason,
            "script": self.script,
            "labels": list(self.labels),
            "seed": self.seed,
            "tolerance": self.tolerance,
            "original": self.original.to_dict() if self.original else None,
            "migrated": self.migrated.to_dict() if self.migrated else None,
            **self._distances(),
            "divergence": str(self.divergence) if self.divergence else None,
            "controls": list(self.controls),
        }

    def _distances(self) -> dict[str, Any]:
        if self.original is None or self.migrated is None:
            return {"loss": None, "gradient_norm": None}
        return {
            "loss": curves.difference(self.original.losses, self.migrated.losses).to_dict(),
            "gradient_norm": curves.difference(self.original.norms, self.migrated.norms).to_dict(),
        }


def run(script: Script, *, seed: int, steps: int, timeout: float, fault: bool = False) -> Run:
    """Run a training script in a child process on the CPU and record its curves.

    `steps` optimizer steps at most (0: to its end); `timeout` in seconds; with `fault`, the largest gradient
    is lost before each step.  Raises UsageError if there is no such script.
    """
    if not (script.root / script.script).is_file():
        raise UsageError(
            f"There is no training script {script.script}.",
            place=str(script.root),
            remedy="Give its path relative to the repository.",
        )
    with tempfile.TemporaryDirectory(prefix="portkit-") as folder:
        record = Path(folder) / "record.jsonl"
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "portkit.parity._child",
                    str(record),
                    script.script,
                    *script.arguments,
                ],
                cwd=script.root,
                env=_environment(script, seed, steps, fault),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _read(record, f"it did not end within {timeout:g} s")
        return _read(record, "" if done.returncode == 0 else _last_line(done.stderr, done.returncode))


def _environment(script: Script, seed: int, steps: int, fault: bool) -> dict[str, str]:
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "",  # both runs are on the CPU
        "PORTKIT_PARITY": json.dumps({"seed": seed, "steps": steps, "fault": fault}),
        **script.environment,
    }


def _last_line(stderr: str, code: int) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {code}"


def _read(record: Path, error: str) -> Run:
    rows = []
    if record.is_file():
        lines = record.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.endswith("}")]
    losses = tuple(row["loss"] for row in rows if "loss" in row)
    norms = tuple(row["norm"] for row in rows if "norm" in row)
    times = [row["time"] for row in rows if "time" in row]
    laps = [later - earlier for earlier, later in pairwise(times[1:])]
    return Run(losses, norms, error, median(laps) if laps else 0.0)


def compare(
    original: Script,
    migrated: Script,
    *,
    seed: int = 1337,
    steps: int = 20,
    tolerance: float = 1e-3,
    timeout: float = 600.0,
    progress: Callable[[str], None] = lambda line: None,
) -> TrainingReport:
    """Run both scripts and compare their curves; then check on a faulty run that a fault would be seen.

    `tolerance` is the largest relative difference of a loss; gradient norms get ten times as much.
    """
    progress(f"running: {original.label}")
    first = run(original, seed=seed, steps=steps, timeout=timeout)
    if first.error or not first.losses:
        reason = first.error or "it makes no backward pass"
        return _report(
            Status.SKIPPED, f"the {original.label} does not run on the CPU: {reason}",
            (original, migrated), seed, tolerance, None, None,
        )  # fmt: skip
    progress(f"running: {migrated.label}")
    second = run(migrated, seed=seed, steps=steps, timeout=timeout)
    base = ((original, migrated), seed, tolerance, first, second)
    if second.error or not second.losses:
        reason = second.error or "it makes no backward pass"
        return _report(Status.FAIL, f"the {migrated.label} does not run on the CPU: {reason}", *base)
    divergence = _diverges(first, second, tolerance)
    if divergence:
        return _report(Status.FAIL, f"diverges in {divergence}", *base, divergence=divergence)
    status, reason, caught = curves.control(first.losses, tolerance)
    if status is Status.PASS:
        progress("running: a lost gradient, which must be noticed")
        length = min(CONTROL_STEPS, steps or CONTROL_STEPS)
        broken = run(migrated, seed=seed, steps=length, timeout=timeout, fault=True)
        if not broken.error and _diverges(_head(first, broken), broken, tolerance) is None:
            status, reason = Status.BLIND, "a run with a lost gradient went unnoticed"
        else:
            caught = (*caught, "a lost gradient")
    return _report(status, reason, *base, controls=caught)


def _head(run: Run, other: Run) -> Run:
    return Run(run.losses[: len(other.losses)], run.norms[: len(other.norms)], "")


def _diverges(first: Run, second: Run, tolerance: float) -> Divergence | None:
    """The earlier of the first divergences of the two curves."""
    found = [
        curves.diverges("loss", first.losses, second.losses, tolerance),
        curves.diverges("gradient norm", first.norms, second.norms, tolerance * curves.NORM_FACTOR),
    ]
    return min((d for d in found if d), key=lambda d: d.step, default=None)


def _report(
    status: Status,
    reason: str,
    scripts: Sequence[Script],
    seed: int,
    tolerance: float,
    original: Run | None,
    migrated: Run | None,
    *,
    divergence: Divergence | None = None,
    controls: tuple[str, ...] = (),
) -> TrainingReport:
    return TrainingReport(
        status=status,
        reason=reason,
        script=scripts[1].script,
        labels=(scripts[0].label, scripts[1].label),
        seed=seed,
        tolerance=tolerance,
        original=original,
        migrated=migrated,
        divergence=divergence,
        controls=controls,
    )
