"""A recorded run: its curves, the calls of its first steps, and the file that carries it to another machine.

The file is lines of JSON: a head, what was observed, and at the end the hash of all lines before.  It holds
no code and no pickles.  The hash finds a file that was cut off or damaged; it is no signature.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import portkit
from portkit.errors import UsageError
from portkit.files import write_atomically
from portkit.parity import timeline
from portkit.parity.compare import plain

KIND = "portkit-trace"
SCHEMA_VERSION = 1
_REMEDY = "Record it again: portkit record SCRIPT --output FILE."
_LARGEST = 1 << 30  # bytes of a file that is read


@dataclass(frozen=True)
class Run:
    """What one run gave."""

    losses: tuple[float, ...]
    norms: tuple[float, ...]  # of all gradients
    error: str  # why it ended too early; empty if it did not
    seconds: float = field(default=0.0, compare=False)  # per optimizer step, median without the first
    scales: tuple[float, ...] = ()  # of the loss
    rates: tuple[float, ...] = ()  # of learning, all parameter groups in one number
    parameters: tuple[float, ...] = ()  # norm of all
    calls: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    timeline: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)  # of some steps

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "losses": [plain(v) for v in self.losses],
            "norms": [plain(v) for v in self.norms],
            "error": self.error,
            "seconds": self.seconds,
            "learning_rates": [plain(v) for v in self.rates],
            "parameter_norms": [plain(v) for v in self.parameters],
        }

    def curves(self) -> dict[str, tuple[float, ...]]:
        """Every curve by its name."""
        return {
            "loss": self.losses,
            "gradient norm": self.norms,
            "loss scale": self.scales,
            "learning rate": self.rates,
            "parameter norm": self.parameters,
        }


@dataclass(frozen=True)
class Trace:
    """A run, runs of the same program with other rounding, and how it was started."""

    script: str
    arguments: tuple[str, ...]
    seed: int
    run: Run
    noise: tuple[Run, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)


def run_of(rows: Iterable[Mapping[str, Any]], error: str) -> Run:
    """A run from what an observer wrote."""
    rows = list(rows)
    backward = [row for row in rows if "loss" in row]
    steps = [row for row in rows if "time" in row]
    laps = [later - earlier for earlier, later in pairwise([row["time"] for row in steps][1:])]
    return Run(
        losses=tuple(float(row["loss"]) for row in backward),
        norms=tuple(float(row["norm"]) for row in backward),
        error=error,
        seconds=median(laps) if laps else 0.0,
        scales=tuple(float(row["scale"]) for row in backward),
        rates=tuple(sum(float(v) ** 2 for v in row["rates"]) ** 0.5 for row in steps),
        parameters=tuple(float(row["parameters"]) for row in steps),
        calls=tuple(_steps(rows)),
        timeline=next((row["timeline"] for row in rows if "timeline" in row), None),
    )


def _steps(rows: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Calls and gradients with the step that they belong to."""
    step = 0
    for row in rows:
        step += "time" in row
        if "module" in row or "operator" in row or "gradients" in row:
            yield {"step": step, **row}


def read_rows(file: Path) -> list[dict[str, Any]]:
    """What an observer wrote, without a line that it could not end."""
    if not file.is_file():
        return []
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            break
        if isinstance(row, dict):
            found.append(row)
    return found


# --- the file -------------------------------------------------------------------------------------------


def write(trace: Trace, file: Path) -> None:
    """Write a trace.  Raises UsageError where the file can't be written."""
    head = {
        "kind": KIND,
        "schema_version": SCHEMA_VERSION,
        "script": trace.script,
        "arguments": list(trace.arguments),
        "seed": trace.seed,
        "environment": dict(trace.environment),
    }
    runs = [("run", trace.run), *(("noise", run) for run in trace.noise)]
    lines = [json.dumps(head), *(line for name, run in runs for line in _lines(name, run))]
    text = "".join(f"{line}\n" for line in lines)
    digest = hashlib.sha256(text.encode()).hexdigest()
    write_atomically(file, f"{text}{json.dumps({'sha256': digest, 'lines': len(lines)})}\n".encode())


def _lines(name: str, run: Run) -> list[str]:
    curves = {
        key: [plain(v) for v in values]
        for key, values in (
            ("losses", run.losses),
            ("norms", run.norms),
            ("scales", run.scales),
            ("rates", run.rates),
            ("parameters", run.parameters),
        )
    }
    first = {name: curves, "error": run.error, "seconds": run.seconds, "calls": len(run.calls)}
    if run.timeline is not None:
        first["timeline"] = run.timeline
    return [json.dumps(first), *(json.dumps(call) for call in run.calls)]


def read(file: Path) -> Trace:
    """A trace from its file.  Raises UsageError that says what is wrong with it."""
    try:
        if file.stat().st_size > _LARGEST:
            raise _wrong(file, "is larger than a trace can be")
        data = file.read_bytes()
    except OSError as error:
        raise _wrong(file, f"cannot be read ({error.strerror})") from None
    body, _, last = data.rstrip(b"\n").rpartition(b"\n")
    try:
        end = json.loads(last)
    except ValueError:
        end = None
    if not data.startswith(b'{"kind": "' + KIND.encode()):
        raise _wrong(file, "is no trace")
    if not isinstance(end, dict) or "sha256" not in end or not data.endswith(b"\n"):
        raise _wrong(file, "is cut off: its last line is missing")
    if hashlib.sha256(body + b"\n").hexdigest() != end["sha256"]:
        raise _wrong(file, "was changed after it was recorded: its checksum does not fit")
    try:
        return _trace([json.loads(line) for line in body.decode().split("\n")])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise _wrong(file, f"is damaged ({type(error).__name__}: {error})") from None


def _trace(rows: Sequence[Mapping[str, Any]]) -> Trace:
    head = rows[0]
    if head["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"it has version {head['schema_version']}, not {SCHEMA_VERSION}")
    runs: dict[str, list[Run]] = {"run": [], "noise": []}
    at = 1
    while at < len(rows):
        first = rows[at]
        name = "run" if "run" in first else "noise"
        count = int(first["calls"])
        calls = rows[at + 1 : at + 1 + count]
        if len(calls) != count or not all(isinstance(call["step"], int) for call in calls):
            raise ValueError("calls are missing")
        curves: dict[str, Any] = {key: tuple(float(v) for v in values) for key, values in first[name].items()}
        made = Run(error=str(first["error"]), seconds=float(first["seconds"]), calls=tuple(calls), **curves)
        runs[name].append(replace(made, timeline=timeline.checked(first.get("timeline"))))
        at += 1 + count
    (run,) = runs["run"]
    arguments = tuple(str(word) for word in head["arguments"])
    return Trace(
        str(head["script"]),
        arguments,
        int(head["seed"]),
        run,
        tuple(runs["noise"]),
        dict(head["environment"]),
    )


def _wrong(file: Path, what: str) -> UsageError:
    return UsageError(f"The trace {what}.", place=str(file), remedy=_REMEDY)


def environment() -> dict[str, str]:
    """Versions and machine, for the head of a trace."""
    found = {
        "portkit": portkit.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
    for name in ("torch", "numpy"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
