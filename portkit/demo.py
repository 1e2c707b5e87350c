"""portkit demo: a small CUDA-bound repository, scanned, migrated, trained on the CPU and proved equal."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portkit import copying, coverage, diffs, engine, history, writing
from portkit.config import Config
from portkit.engine import ScanResult
from portkit.errors import UsageError
from portkit.files import write_atomically
from portkit.finding import Phase, Support
from portkit.migrate import Options, plan
from portkit.parity import cases, document, operator, recorded
from portkit.parity import modules as proving
from portkit.parity import training as runs
from portkit.parity.training import Script, TrainingReport
from portkit.reports import html

NAME = "minigpt"
MARK = ".portkit-demo"  # says that a folder is ours to replace
ARGUMENTS = ("--config", "configs/small.yaml", "--device", "cpu", "--dtype", "float32", "--num_workers", "0")
_KINDS = ("original", "migrated")
KERNELS = {"vendor": "torch's kernels", "tile": "portkit's kernels"}


@dataclass
class Demo:
    """What the steps of the demo made, for the report."""

    folder: Path
    before: ScanResult
    after: ScanResult
    rewrites: dict[str, int] = field(default_factory=dict)
    changes: list[tuple[str, str]] = field(default_factory=list)
    training: TrainingReport | None = None
    rows: list[operator.Row] = field(default_factory=list)
    modules: list[proving.Row] = field(default_factory=list)
    timeline: Mapping[str, Any] | None = None

    @property
    def original(self) -> Path:
        return self.folder / "original"

    @property
    def migrated(self) -> Path:
        return self.folder / "migrated"


def say(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)


def source() -> Path:
    """The demo repository, of the installed package or of the checkout.  Raises UsageError if it is gone."""
    package = Path(__file__).parent
    for folder in (package / "templates" / NAME, package.parent / "fixtures" / "projects" / NAME):
        if (folder / "train.py").is_file():
            return folder
    raise UsageError("The demo repository is missing.", place=str(package), remedy="Install portkit again.")


def prepare(folder: Path) -> Path:
    """Make the folder of the demo, and copy the repository into it.

    Raises UsageError if the folder holds something that is not of an earlier demo, or cannot be written.
    """
    taken = folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists())
    if taken:
        raise UsageError(
            "The folder holds something else.",
            place=str(folder),
            remedy="Name another one with --output DIR.",
        )
    try:
        for kind in _KINDS:
            shutil.rmtree(folder / kind, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()
        shutil.copytree(source(), folder / "original", ignore=shutil.ignore_patterns("__pycache__", "runs"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"The demo cannot be written: {reason}.", place=str(folder), remedy="Name another folder."
        ) from None
    return folder / "original"


def migrate(original: Path, migrated: Path, progress: Callable[[str], None]) -> dict[str, int]:
    """Copy the repository and migrate the copy phase by phase; returns the number of rewrites of each."""
    copying.copy_tree(original, migrated)
    counts = {}
    for phase in Phase:
        made = plan(migrated, Options(phase, Config()), jobs=1)
        writing.write(made)
        counts[phase.value] = sum(len(change.done) for change in made.changes)
        progress(f"  phase {phase.value}: {counts[phase.value]} rewrites in {len(made.changes)} files")
    return counts


def train(migrated: Path, steps: int, progress: Callable[[str], None]) -> TrainingReport:
    """Train the migrated copy on the CPU with torch's kernels and with portkit's; compare the curves."""
    arguments = (*ARGUMENTS, "--steps", str(steps), "--log_every", str(steps))
    pair = [_script(migrated, arguments, force) for force in KERNELS]
    return runs.compare(pair[0], pair[1], steps=steps, progress=lambda line: progress(f"  {line}"))


def _script(tree: Path, arguments: Sequence[str], force: str, *, standin: bool = False) -> Script:
    words = (*arguments, "--run_dir", f"runs/{force}")
    return Script(tree, "train.py", words, {"PORTKIT_FORCE": force}, KERNELS[force], standin=standin)


def prove(original: Path, migrated: Path) -> list[proving.Row]:
    """The original's modules, CUDA stood in for, against those of the copy with portkit's kernels."""
    words = (*ARGUMENTS, "--attention", "math")
    one = _script(original, words, "vendor", standin=True)
    return proving.compare(one, _script(migrated, words, "tile"))


def profile(migrated: Path) -> Mapping[str, Any] | None:
    """The timeline of a few steps with portkit's kernels."""
    steps = sum(runs.PROFILED) + 1
    script = _script(migrated, (*ARGUMENTS, "--steps", str(steps), "--log_every", str(steps)), "tile")
    return runs.run(script, seed=1337, steps=steps, timeout=600.0, timeline=runs.PROFILED).timeline


def run(folder: Path, steps: int) -> Demo:
    """The whole demo in `folder`; progress goes to stderr.  Raises UsageError for a folder that is taken."""
    original = prepare(folder)
    say(f"scan: {original}")
    before = engine.scan([original], Config(), jobs=1)
    for line in _counts(before):
        say(line)
    demo = Demo(folder, before, before)
    say(f"migrate: {demo.migrated}")
    demo.rewrites = migrate(original, demo.migrated, say)
    demo.changes = diffs.between(original, demo.migrated)
    demo.after = engine.scan([demo.migrated], Config(), jobs=1)
    say(f"  left for a person: {_left(demo.after)}")
    if cases.torch_installed():
        say(f"train: {steps} steps on the CPU")
        demo.training = train(demo.migrated, steps, say)
        say(f"  {_training_line(demo.training)}")
        say("parity: modules of both trees, with one state and the same inputs")
        demo.modules = prove(original, demo.migrated)
        say(f"  {_told(Counter(row.status.value for row in demo.modules))}")
        demo.timeline = profile(demo.migrated)
    else:
        say("train: left out, torch is not installed (pip install 'portkit[torch]')")
    say("parity: operators against a float64 oracle")
    demo.rows = operator.run(cases.used(before))
    say(f"  {_told(operator.summary(demo.rows))}")
    return demo


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _counts(result: ScanResult) -> list[str]:
    lines = []
    for phase in Phase:
        counted = coverage.dependencies(result.findings, phase)
        share = "none" if counted.percent is None else f"{counted.percent:g} %"
        lines.append(f"  phase {phase.value}: {counted.total} dependencies, safe to rewrite or fine: {share}")
    return lines


def _left(result: ScanResult) -> int:
    open_kinds = (Support.REVIEW, Support.MANUAL, Support.UNKNOWN)
    return sum(f.support in open_kinds for f in result.findings if coverage.is_dependency(f))


def _training_line(report: TrainingReport) -> str:
    second = report.migrated
    if second is None or not second.losses:
        return f"{report.status.value}: {report.reason}"
    ends = f"loss {second.losses[0]:.4f} → {second.losses[-1]:.4f}"
    why = f": {report.reason}" if report.reason else ", the same curve as with torch's kernels"
    return f"{report.status.value}: {ends}{why}"


def write_report(demo: Demo) -> Path:
    """Write `parity.json` and `report.html` into the folder of the demo; returns the page."""
    found = document.build(demo.rows, demo.training, demo.modules)
    page = demo.folder / "report.html"
    data = json.dumps(found, indent=2, allow_nan=False) + "\n"
    write_atomically(demo.folder / "parity.json", data.encode())
    extras = html.Extras(
        title=f"{NAME}: off CUDA",
        diffs=demo.changes,
        rewrites=demo.before.findings,
        history=history.read(demo.migrated)[0],
        parity=found,
        trainings=[found["training"]] if found["training"] else [],
        performance=_performance(demo.training),
        runs=recorded.exported(_runs(demo), page),
        steps=_steps(demo),
        environment=[("CPU cores", str(os.cpu_count() or 1))],
        date=datetime.date.today().isoformat(),
    )
    write_atomically(page, html.render(demo.before, extras=extras).encode())
    return page


def _runs(demo: Demo) -> list[dict[str, Any]]:
    if demo.timeline is None:
        return []
    label = f"With {KERNELS['tile']}"
    return [{"name": "tile", "label": label, "script": "train.py", "seconds": 0.0, "timeline": demo.timeline}]


def _performance(report: TrainingReport | None) -> Mapping[str, Any] | None:
    if report is None or report.original is None or report.migrated is None:
        return None
    base = report.original.seconds
    if not base:
        return None
    pairs = zip(report.labels, (report.original, report.migrated), strict=True)
    rows = [[label, f"{1000 * r.seconds:.1f}", f"{r.seconds / base:.2f}"] for label, r in pairs]
    return {
        "summary": "One training step on this machine, median of all but the first.",
        "columns": ["Operators", "ms per step", "relative"],
        "rows": rows,
    }


def _steps(demo: Demo) -> list[html.Step]:
    rewrites = sum(demo.rewrites.values())
    return [
        html.Step(f"{rewrites} rewrites were applied; {_left(demo.after)} places are left for a person.",
                  f"portkit scan {demo.migrated} --verbose"),
        html.Step("Scan your own repository.", "portkit scan PATH"),
        html.Step("See what would change in it.", "portkit migrate PATH --phase operator"),
    ]  # fmt: skip


def failed(demo: Demo) -> bool:
    """Whether training or parity did not hold."""
    return bool(document.failures(document.build(demo.rows, demo.training, demo.modules)))
