"""The original and the migrated training script, run on the CPU from one seed, and their curves compared."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from portkit.errors import UsageError
from portkit.parity import bisect, blame, curves, launch, noise, trace
from portkit.parity.bisect import Culprits
from portkit.parity.blame import Place
from portkit.parity.compare import Status
from portkit.parity.curves import Divergence
from portkit.parity.trace import Run, Trace

__all__ = ["Options", "Run", "Script", "TrainingReport", "compare", "record", "run"]

CONTROL_STEPS = 5
OBSERVED = 2  # steps whose calls are recorded
NOISE = (101, 202)  # seeds of the runs with other rounding
PROFILED = (2, 3)  # steps before, and during, what a timeline shows

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Script:
    """One training script and how to start it."""

    root: Path  # working directory
    script: str  # relative to root
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    standin: bool = False  # whether a stand-in takes the place of CUDA
    float16: bool = False  # whether mixed precision is on, as on an accelerator, where the CPU has it off


@dataclass(frozen=True)
class Options:
    """How two runs are compared."""

    seed: int = 1337
    steps: int = 20
    tolerance: float | None = 1e-3  # of a loss, relative; None: measured on runs with other rounding
    timeout: float = 600.0  # seconds for each run
    bisect: float = 0.0  # seconds for finding the edit at fault; 0: it is not looked for


@dataclass(frozen=True)
class TrainingReport:
    """Two runs, and what their comparison came to."""

    status: Status
    reason: str
    script: str
    labels: tuple[str, str]
    seed: int
    tolerance: float | None
    original: Run | None
    migrated: Run | None
    divergence: Divergence | None = None
    controls: tuple[str, ...] = ()
    allowed: Mapping[str, Any] = field(default_factory=dict)  # curve → tolerance at each step
    place: Place | None = None
    culprits: Culprits | None = None
    notes: tuple[str, ...] = ()

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
            "tolerances": {name: list(sizes) for name, sizes in self.allowed.items()},
            "place": self.place.to_dict() if self.place else None,
            "edits": [edit.to_dict() for edit in self.culprits.edits] if self.culprits else [],
            "notes": list(self.notes),
        }

    def _distances(self) -> dict[str, Any]:
        if self.original is None or self.migrated is None:
            return {"loss": None, "gradient_norm": None}
        return {
            "loss": curves.difference(self.original.losses, self.migrated.losses).to_dict(),
            "gradient_norm": curves.difference(self.original.norms, self.migrated.norms).to_dict(),
        }


def run(
    script: Script,
    *,
    seed: int,
    steps: int,
    timeout: float,
    fault: bool = False,
    calls: int = 0,
    rounding: int = 0,
    timeline: tuple[int, int] | None = None,
    device: str = "cpu",
) -> Run:
    """Run a training script in a child process and record its curves.

    `steps` optimizer steps at most (0: to its end); `timeout` in seconds; with `fault`, the largest gradient
    is lost before each step; `calls`: during how many steps modules and operators are recorded; `rounding`:
    seed of disturbed rounding; `timeline`: how many steps pass before how many are profiled.  Raises
    UsageError if there is no such script.
    """
    if not (script.root / script.script).is_file():
        raise UsageError(
            f"There is no training script {script.script}.",
            place=str(script.root),
            remedy="Give its path relative to the repository.",
        )
    settings = {
        "seed": seed,
        "steps": steps,
        "fault": fault,
        "calls": calls,
        "noise": rounding,
        "timeline": timeline,
        "standin": script.standin,
        "float16": script.float16,
    }
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}  # both runs are on the CPU
    with tempfile.TemporaryDirectory(prefix="portkit-") as folder:
        file = Path(folder) / "record.jsonl"
        error = launch.run(
            launch.Job(
                "portkit.parity._child",
                [str(file), script.script, *script.arguments],
                folder=script.root,
                settings=settings,
                environment={**hidden, **script.environment},
                timeout=timeout,
                fork=device == "cpu",
            )
        )
        return trace.run_of(trace.read_rows(file), error)


def record(
    script: Script,
    options: Options,
    *,
    device: str = "cpu",
    timeline: bool = False,
    progress: Progress = lambda line: None,
) -> Trace:
    """Run a script as it is, with other rounding, and profiled for a `timeline`.

    What went wrong stands in the run's `error`.
    """
    progress(f"running: {script.label}")
    again = partial(
        run,
        script,
        seed=options.seed,
        steps=options.steps,
        timeout=options.timeout,
        calls=OBSERVED,
        device=device,
    )
    base = again()
    disturbed: list[Run] = []
    for number in NOISE if options.tolerance is None and not _bad(base) else ():
        progress(f"running: {script.label}, rounded otherwise")
        disturbed.append(again(rounding=number))
    if timeline:
        base = replace(base, timeline=_profiled(script, options, device, _bad(base), progress))
    environment = {**trace.environment(), "device": device, "stand-in": script.standin}
    return Trace(script.script, script.arguments, options.seed, base, tuple(disturbed), environment)


def _profiled(
    script: Script, options: Options, device: str, bad: str, progress: Progress
) -> Mapping[str, Any] | None:
    """The timeline of a run of its own, which ends after one step whose work is counted.

    None, and the reason is said, where there is none; `bad` is one that is known already.
    """
    if not bad:
        progress(f"running: {script.label}, profiled")
        made = run(
            script,
            seed=options.seed,
            steps=sum(PROFILED) + 1,
            timeout=options.timeout,
            timeline=PROFILED,
            device=device,
        )
        if made.timeline is not None:
            return made.timeline
        bad = made.error or f"the script has to make more than {PROFILED[0]} optimizer steps"
    progress(f"no timeline: {bad}")
    return None


def _bad(run: Run) -> str:
    """Why a run can't be compared; empty if it can."""
    if run.error:
        return run.error
    if not run.losses:
        return "it makes no backward pass"
    odd = next((step for step, loss in enumerate(run.losses) if not math.isfinite(loss)), None)
    return f"its loss is {run.losses[odd]} at step {odd}" if odd is not None else ""


def compare(
    original: Script | Trace,
    migrated: Script | Trace,
    *,
    seed: int = 1337,
    steps: int = 20,
    tolerance: float | None = 1e-3,
    timeout: float = 600.0,
    bisect: float = 0.0,
    progress: Progress = lambda line: None,
) -> TrainingReport:
    """Run both scripts and compare their curves; then check on a faulty run that a fault would be seen.

    Either side may be a trace that was recorded elsewhere.  `tolerance` is the largest relative difference
    of a loss (gradient norms get ten times as much); None: it is measured, on runs of the original that are
    rounded otherwise, and grows as their distance does.
    """
    return _Comparison(original, migrated, Options(seed, steps, tolerance, timeout, bisect), progress).run()


@dataclass
class _Comparison:
    original: Script | Trace
    migrated: Script | Trace
    options: Options
    progress: Progress

    def run(self) -> TrainingReport:
        """The whole comparison."""
        first = self._traced(self.original)
        if isinstance(self.migrated, Script) and first.environment.get("stand-in"):
            self.migrated = replace(self.migrated, float16=True)
        if bad := _bad(first.run):
            reason = f"the {self._labels()[0]} does not run on the CPU: {bad}"
            return self._report(Status.SKIPPED, reason)
        allowed = (
            noise.tolerances(first.run, first.noise)
            if self.options.tolerance is None and first.noise
            else noise.constant(first.run, self.options.tolerance or 1e-3)
        )
        second = self._traced(self.migrated).run
        found = self._report(Status.PASS, "", first.run, second, allowed=allowed)
        if bad := _bad(second):
            reason = f"the {self._labels()[1]} does not run on the CPU: {bad}"
            return replace(found, status=Status.FAIL, reason=reason)
        if noise.horizon(allowed) < 1:
            reason = f"the {self._labels()[0]} differs from itself already at its first step"
            return replace(found, status=Status.BLIND, reason=f"{reason}: it is not repeatable")
        divergence = noise.diverges(first.run, second, allowed)
        if divergence:
            return self._blamed(replace(found, divergence=divergence), first)
        place = blame.first(first.run, second, first.noise)
        if place is not None:
            return self._blamed(found, first)
        return self._controlled(found, first)

    def _traced(self, side: Script | Trace) -> Trace:
        if isinstance(side, Trace):
            return side
        if side is self.original:
            return record(side, self.options, progress=self.progress)
        self.progress(f"running: {side.label}")
        made = run(
            side,
            seed=self.options.seed,
            steps=self.options.steps,
            timeout=self.options.timeout,
            calls=OBSERVED,
        )
        return Trace(side.script, side.arguments, self.options.seed, made)

    def _blamed(self, found: TrainingReport, first: Trace) -> TrainingReport:
        """A failed comparison, with the place where it starts and the edits at fault."""
        assert found.migrated is not None
        place = blame.first(first.run, found.migrated, first.noise)
        reason = "its curves agree, its calls do not"
        if found.divergence:
            reason = f"diverges in {found.divergence}"
        if place:
            reason += f"; first at {place}"
        culprits = self._bisected(found, first, place)
        if culprits and culprits.edits:
            reason += f"; by the edit {'; '.join(str(edit) for edit in culprits.edits)}"
        notes = (culprits.why,) if culprits and culprits.why else ()
        return replace(found, status=Status.FAIL, reason=reason, place=place, culprits=culprits, notes=notes)

    def _bisected(self, found: TrainingReport, first: Trace, place: Place | None) -> Culprits | None:
        if not self.options.bisect or isinstance(self.migrated, Trace):
            return None
        steps = [found.divergence.step] if found.divergence else [place.step] if place else []
        script, end = self.migrated, max(steps) + 1
        allowed = {name: list(sizes)[:end] for name, sizes in found.allowed.items()}
        wanted = _head(first.run, end)

        def holds(tree: Path) -> bool:
            copy = replace(script, root=tree, standin=True)
            made = run(copy, seed=self.options.seed, steps=end, timeout=self.options.timeout, calls=OBSERVED)
            if made.error or not made.losses:
                return False
            if noise.diverges(wanted, _head(made, end), allowed) is not None:
                return False
            return place is None or blame.first(first.run, made, first.noise) is None

        return bisect.find(
            script.root,
            holds,
            site=place.site if place else "",
            seconds=self.options.bisect,
            progress=self.progress,
        )

    def _controlled(self, found: TrainingReport, first: Trace) -> TrainingReport:
        """A comparison without a difference, after faults were injected."""
        end = noise.horizon(found.allowed)
        status, reason, caught = curves.control(first.run.losses[:end], found.allowed["loss"])
        if status is Status.PASS and not isinstance(self.migrated, Trace):
            self.progress("running: a lost gradient, which must be noticed")
            length = min(CONTROL_STEPS, self.options.steps or CONTROL_STEPS)
            broken = run(
                self.migrated, seed=self.options.seed, steps=length, timeout=self.options.timeout, fault=True
            )
            count = len(broken.losses)
            if not broken.error and noise.diverges(_head(first.run, count), broken, found.allowed) is None:
                status, reason = Status.BLIND, "a run with a lost gradient went unnoticed"
            else:
                caught = (*caught, "a lost gradient")
        total = len(first.run.losses)
        notes = (f"compared for {end} of {total} steps: then rounding alone leads runs apart",)
        return replace(
            found, status=status, reason=reason, controls=caught, notes=notes if end < total else ()
        )

    def _labels(self) -> tuple[str, str]:
        one = self.original.label if isinstance(self.original, Script) else "recorded original"
        other = self.migrated.label if isinstance(self.migrated, Script) else "recorded migrated run"
        return one, other

    def _report(
        self,
        status: Status,
        reason: str,
        first: Run | None = None,
        second: Run | None = None,
        allowed: Mapping[str, Any] | None = None,
    ) -> TrainingReport:
        return TrainingReport(
            status=status,
            reason=reason,
            script=self.migrated.script,
            labels=self._labels(),
            seed=self.options.seed,
            tolerance=self.options.tolerance,
            original=first,
            migrated=second,
            allowed=allowed or {},
        )


def _head(run: Run, steps: int) -> Run:
    """The first steps of a run."""
    return replace(
        run,
        error="",
        losses=run.losses[:steps],
        norms=run.norms[:steps],
        scales=run.scales[:steps],
        rates=run.rates[:steps],
        parameters=run.parameters[:steps],
    )
