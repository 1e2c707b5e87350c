"""Modules of the original and of the migrated tree, with the same state and inputs, in two processes."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from portkit.errors import UsageError
from portkit.parity import bisect, launch
from portkit.parity.bisect import Culprits
from portkit.parity.compare import FORMATS, UNITS, Array, Limits, Status, judge, plain, ulp
from portkit.parity.training import Script

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Other kernels round in more places than the disturbed runs do; those that compute in float32 and round to 16
# bits at the end do not.
FACTOR = {"float64": 10.0, "float32": 10.0, "float16": 3.0, "bfloat16": 3.0}
_KEYS = {"name", "import", "arguments", "keywords", "inputs", "autocast"}


@dataclass(frozen=True)
class Row:
    """One module and what comparing it came to."""

    module: str
    type: str
    status: Status
    reason: str
    compared: int = 0  # tensors
    worst: float = 0.0  # largest difference, in units of what is allowed
    controls: int = 0  # injected faults that were noticed
    site: str = ""
    culprits: Culprits | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "module": self.module,
            "type": self.type,
            "status": self.status.value,
            "reason": self.reason,
            "compared": self.compared,
            "worst": plain(self.worst),
            "controls": self.controls,
            "edits": [edit.to_dict() for edit in self.culprits.edits] if self.culprits else [],
        }


@dataclass(frozen=True)
class Side:
    """What one process gave: arrays by key, and what is said of each module."""

    error: str
    arrays: Mapping[str, Array] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, Any] = field(default_factory=dict)


def spec(file: Path) -> list[dict[str, Any]]:
    """The modules that a file names.  Raises UsageError for a file that is wrong."""
    remedy = 'It holds tables [[module]] with import = "package.file:Class", arguments, keywords and inputs.'
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"The spec can't be read: {error}", place=str(file), remedy=remedy) from None
    entries = data.get("module")
    if not isinstance(entries, list) or not entries:
        raise UsageError("The spec names no module.", place=str(file), remedy=remedy)
    for entry in entries:
        wrong = sorted(set(entry) - _KEYS) if isinstance(entry, dict) else ["a value"]
        if wrong or ":" not in str(entry.get("import", "")):
            what = f"does not know {wrong[0]}" if wrong else 'needs import = "package.file:Class"'
            raise UsageError(f"A module of the spec {what}.", place=str(file), remedy=remedy)
        if any(isinstance(one, dict) and "shape" not in one for one in entry.get("inputs", [])):
            raise UsageError("An input has no shape.", place=str(file), remedy=remedy)
    return entries


def compare(
    original: Script,
    migrated: Script,
    entries: Sequence[Mapping[str, Any]] | None = None,
    *,
    seed: int = 1337,
    timeout: float = 600.0,
    seconds: float = 0.0,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """A row for each module: of a spec, or else the first of each class that the script calls.

    `seconds`: how long the edit at fault is looked for.
    """
    with tempfile.TemporaryDirectory(prefix="portkit-") as name:
        folder = Path(name)
        prove = _Prover(list(entries or []), seed, timeout, folder)
        progress(f"modules: {original.label}")
        first = prove.run(original)
        if first.error:
            reason = f"the {original.label} does not run on the CPU: {first.error}"
            return [Row("", "", Status.SKIPPED, reason)]
        migrated = replace(migrated, float16=original.standin)
        progress(f"modules: {migrated.label}")
        second = prove.run(migrated, folder / "original")
        if second.error:
            reason = f"the {migrated.label} does not run on the CPU: {second.error}"
            rows = [Row("", "", Status.FAIL, reason)]
        else:
            rows = _rows(first, second)
        if not seconds or not any(row.status is Status.FAIL for row in rows):
            return rows

        def holds(tree: Path) -> bool:
            side = prove.run(replace(migrated, root=tree, standin=True), folder / "original")
            return not side.error and all(r.status is not Status.FAIL for r in _rows(first, side))

        site = next((row.site for row in rows if row.status is Status.FAIL and row.site), "")
        found = bisect.find(migrated.root, holds, site=site, seconds=seconds, progress=progress)
        return [_blamed(row, found) for row in rows]


def _blamed(row: Row, found: Culprits) -> Row:
    if row.status is not Status.FAIL:
        return row
    named = "; ".join(str(edit) for edit in found.edits)
    return replace(row, culprits=found, reason=f"{row.reason}; by the edit {named}" if named else row.reason)


@dataclass
class _Prover:
    spec: list[Mapping[str, Any]]
    seed: int
    timeout: float
    folder: Path
    count: int = 0

    def run(self, script: Script, given: Path | None = None) -> Side:
        """One side, in a process of its own."""
        out = self.folder / (f"side {self.count}" if given else "original")
        self.count += 1
        out.mkdir()
        settings = {
            "seed": self.seed,
            "standin": script.standin,
            "float16": script.float16,
            "spec": self.spec,
            "given": str(given or ""),
        }
        words = [] if self.spec else [script.script, *script.arguments]
        if words and not (script.root / script.script).is_file():
            raise UsageError(
                f"There is no training script {script.script}.",
                place=str(script.root),
                remedy="Give its path relative to the repository, or modules with --spec FILE.",
            )
        environment = {"CUDA_VISIBLE_DEVICES": "", **script.environment}
        error = launch.run(
            launch.Job(
                "portkit.parity._module_child",
                [str(out), *words],
                folder=script.root,
                settings=settings,
                environment=environment,
                timeout=self.timeout,
            )
        )
        if error:
            return Side(error)
        return _read(out)


def _read(out: Path) -> Side:
    import json

    try:
        about = json.loads((out / "about.json").read_text(encoding="utf-8"))
        with np.load(out / "arrays.npz", allow_pickle=False) as data:
            arrays = {about["keys"][int(key[1:])]: data[key] for key in data.files}
    except (OSError, ValueError, KeyError, IndexError):
        return Side("the script ended before its modules could be run")
    return Side("", arrays, about["dtypes"], about["modules"])


def _rows(first: Side, second: Side) -> list[Row]:
    return [_row(name, about, first, second) for name, about in first.modules.items()]


def _row(name: str, about: Mapping[str, Any], first: Side, second: Side) -> Row:
    shown = name or "(whole model)"
    if "error" in about:
        return Row(shown, "", Status.SKIPPED, f"in the original: {about['error']}")
    other = second.modules.get(name)
    kind = str(about["type"])
    if other is None:
        return Row(shown, kind, Status.FAIL, "the migrated program does not call it")
    if "error" in other:
        return Row(shown, kind, Status.FAIL, f"in the migrated tree: {other['error']}")
    site = str(other["site"])
    compared, worst, controls = 0, 0.0, 0
    for what, key in about["results"]["result"].items():
        theirs = other["results"]["result"].get(what)
        if theirs is None:
            return Row(shown, kind, Status.FAIL, f"{what} is missing", site=site)
        noise = [group[what] for label, group in about["results"].items() if label != "result"]
        status, reason, size, caught = _judged(first, second, key, theirs, noise)
        if status in (Status.FAIL, Status.BLIND):
            return Row(shown, kind, status, f"{what}: {reason}", compared + 1, size, controls, site)
        compared, worst, controls = compared + 1, max(worst, size), controls + caught
    if not controls:
        return Row(shown, kind, Status.BLIND, "nothing that it gives could show a fault", compared)
    return Row(shown, kind, Status.PASS, "", compared, worst, controls, site)


def _judged(
    first: Side, second: Side, key: str, other: str, noise: Sequence[str]
) -> tuple[Status, str, float, int]:
    """One tensor: status, reason, difference in units of what is allowed, faults noticed."""
    mine, theirs = first.arrays[key], second.arrays[other]
    dtype, given = first.dtypes[key], second.dtypes[other]
    if dtype != given:
        return Status.FAIL, f"it is {given}, not {dtype}", 0.0, 0
    if dtype not in FORMATS:
        same = mine.shape == theirs.shape and bool(np.array_equal(mine, theirs))
        return (Status.PASS, "", 0.0, 0) if same else (Status.FAIL, "other values", 0.0, 0)
    usual = max((_largest(first.arrays[one] - mine) for one in noise), default=0.0)
    floor = 2.0 * UNITS[dtype] * float(ulp(np.asarray(_largest(mine)), dtype))
    verdict = judge(theirs, mine.astype(np.float64), dtype, Limits(max(floor, FACTOR[dtype] * usual), 0.0))
    size = verdict.metrics.excess if verdict.metrics else 0.0
    reason = verdict.reason
    if verdict.metrics and verdict.metrics.excess > 1.0:
        allowed = max(floor, FACTOR[dtype] * usual)
        reason = f"differs by up to {verdict.metrics.max_abs:.3g}, where rounding accounts for {allowed:.2g}"
    return verdict.status, reason, size, len(verdict.controls)


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0, where=np.isfinite(values)))
