"""One self-contained HTML page: what was found, what was changed, and the proof that it computes the same."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import portkit
from portkit import coverage
from portkit.engine import ScanResult
from portkit.finding import Finding, Phase, Support
from portkit.history import Point
from portkit.reports import _burndown, _diffs, _proof, _treemap, _view
from portkit.templating import environment

PACKAGES = ("torch", "numpy", "llvmlite", "libcst")


@dataclass(frozen=True)
class Step:
    """Something to do next, with the command that does it."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Extras:
    """What a page can show beyond a scan.  The mappings are the JSON documents that the commands write."""

    title: str = ""
    diffs: Sequence[tuple[str, str]] = ()  # path, unified diff
    rewrites: Sequence[Finding] = ()  # of the scan before the migration: notes beside the diffs
    history: Sequence[Point] = ()
    parity: Mapping[str, Any] | None = None
    trainings: Sequence[Mapping[str, Any]] = ()
    runs: Sequence[Mapping[str, Any]] = ()  # recorded: label, script, seconds, timeline, perfetto
    performance: Mapping[str, Any] | None = None  # summary, columns, rows
    steps: Sequence[Step] = ()
    environment: Sequence[tuple[str, str]] = ()
    date: str = ""


def render(
    result: ScanResult,
    *,
    verbose: bool = False,
    colour: bool = False,
    width: int = 100,
    extras: Extras | None = None,
) -> str:
    """The page as text.  It loads nothing from elsewhere; everything in it that is not ours is escaped.

    `verbose`, `colour` and `width` change nothing.
    """
    extras = extras or Extras()
    findings = result.findings
    diffs = _diffs.files(extras.diffs, _diffs.notes(extras.rewrites))
    rules = _view.rule_rows(findings, {rule.id: rule.name for rule in result.rules})
    return environment().get_template("report.html.j2").render(
        version=portkit.__version__,
        project=extras.title or result.root.resolve().name or "scan",
        summary=_summary(result),
        date=extras.date,
        phases=_view.phase_cards(findings),
        phase_names=[phase.value for phase in Phase],
        supports=_view.SUPPORTS,
        support_help=_view.SUPPORT_HELP,
        matrix=_view.matrix(findings),
        treemap=_treemap.treemap(findings),
        burndown=_burndown.burndown(extras.history),
        unparsed=[_unparsed(item) for item in result.unparsed],
        next_steps=extras.steps,
        rules=rules,
        findings=_view.file_groups(findings),
        total=len(findings),
        operators=_view.operator_rows(result.operators),
        operator_summary=_view.operator_summary(result.operators),
        packages=_view.package_rows(result.packages),
        affected=_view.affected_rows(result.affects, findings),
        functions=result.affects.all,
        diffs=diffs,
        change_summary=_view.change_summary(diffs),
        parity=_proof.parity_view(extras.parity),
        modules=_proof.module_view(extras.parity),
        trainings=[_proof.training_view(one) for one in extras.trainings],
        performance=extras.performance,
        runs=[_proof.run_view(run) for run in extras.runs],
        environment=[*_versions(), *extras.environment],
    )  # fmt: skip


def _summary(result: ScanResult) -> str:
    found = [f for f in result.findings if coverage.is_dependency(f)]
    fine = sum(f.support is Support.PORTABLE for f in found)
    files = len({f.location.path for f in found if f.support is not Support.PORTABLE})
    unread = f"; {len(result.unparsed)} could not be read" if result.unparsed else ""
    return (
        f"{len(found) - fine} CUDA dependencies to resolve in {files} of {result.files} files "
        f"({result.lines:,} lines{unread}); {fine} places are portable already."
    )


def _unparsed(item: Any) -> dict[str, str]:
    line = f":{item.line}" if item.line else ""
    return {"place": f"{item.path}{line}", "reason": item.reason}


def _versions() -> list[tuple[str, str]]:
    """Versions of what matters here; packages are asked for their metadata, never imported."""
    rows = [
        ("portkit", portkit.__version__),
        ("Python", platform.python_version()),
        ("Machine", f"{platform.system()} {platform.machine()}"),
    ]
    return rows + [(name, _installed(name)) for name in PACKAGES]


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
