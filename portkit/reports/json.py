"""The report as JSON, for programs: a fixed schema, no times, no order that depends on the machine."""

from __future__ import annotations

import json
from typing import Any

import portkit
from portkit import coverage, effort, packages, reach, ruleset
from portkit.engine import ScanResult
from portkit.finding import Alias, Finding, Phase, Unparsed

SCHEMA_VERSION = 1
_PLACES = 20  # of one operator or package that are listed


def render(result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100) -> str:
    """JSON text; `verbose`, `colour` and `width` change nothing."""
    return json.dumps(as_data(result), indent=2, ensure_ascii=False)


def as_data(result: ScanResult) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run": {
            "tool": "portkit",
            "version": portkit.__version__,
            "paths": list(result.paths),
            "rules": len(result.rules),
            "rule_set": ruleset.fingerprint(result.rules),
            "operators": result.config.operators,
            "configuration": result.config.file.name if result.config.file is not None else None,
            "diff_base": _since(result),
            "baseline": _baseline(result),
        },
        "scope": {
            "files": result.files,
            "lines": result.lines,
            "kinds": dict(sorted(result.kinds.items())),
            "suppressed": len(result.suppressed),
            "unparsed": [_unparsed(item) for item in result.unparsed],
        },
        "coverage": {"dependencies": _dependencies(result), "operators": _operators(result)},
        "dependencies": [_package(item) for item in result.packages],
        "operators": [_operator(item) for item in result.operators.every],
        "affected": [_affected(item) for item in result.affects.functions],
        "findings": [finding_data(item, result.is_new(item), result.affects) for item in result.findings],
    }


def finding_data(
    finding: Finding, new: bool | None = None, affects: reach.Affects | None = None
) -> dict[str, Any]:
    """One finding as plain data; `new`: whether the baseline lacks it, `affects`: what it affects."""
    where = finding.location
    return {
        "id": finding.id,
        "rule": finding.rule,
        "phase": finding.phase.value,
        "support": finding.support.value,
        "path": where.path,
        "cell": where.cell,
        "line": where.line,
        "column": where.column,
        "end_line": where.end_line,
        "end_column": where.end_column,
        "message": finding.message,
        "remedy": finding.remedy,
        "qualified_name": finding.qualified_name,
        "scope": finding.scope,
        "aliases": [_alias(item, where.path) for item in finding.aliases],
        "guard": finding.guard,
        "guard_kind": finding.guard_kind.value if finding.guard_kind is not None else None,
        "guard_line": finding.guard_line,
        "import_time": finding.import_time,
        "effort_minutes": finding.effort.minutes,
        "effort_basis": finding.effort.basis,
        "snippet": finding.snippet,
        "note": finding.note,
        "lossy": finding.lossy,
        "affects": _affects(affects, finding) if affects is not None else None,
        "occurrences": finding.occurrences,
        "new": new,
    }


def _since(result: ScanResult) -> dict[str, Any] | None:
    since = result.since
    if since is None:
        return None
    return {"revision": since.revision, "commits": list(since.commits), "unchanged": since.unchanged}


def _baseline(result: ScanResult) -> dict[str, Any] | None:
    found = result.baseline
    if found is None:
        return None
    gone = [{"path": item.path, "rule": item.rule, "id": item.id} for item in found.gone]
    return {
        "file": found.file.as_posix(),
        "entries": found.entries,
        "known": len(found.known),
        "new": len(found.new),
        "gone": gone,
    }


def _alias(item: Alias, path: str) -> dict[str, Any]:
    return {"name": item.name, "via": item.via, "path": item.path or path, "line": item.line}


def _minutes(result: ScanResult, phase: Phase | None) -> dict[str, int]:
    left = effort.left(result.findings, phase)
    return {"total": left.minutes, **{support.value: n for support, n in left.by_support.items()}}


def _unparsed(item: Unparsed) -> dict[str, Any]:
    return {"path": item.path, "reason": item.reason, "line": item.line, "column": item.column}


def _dependencies(result: ScanResult) -> dict[str, Any]:
    phases = {phase.value: _counted(result, phase) for phase in Phase}
    return {"overall": _counted(result, None), "phases": phases}


def _counted(result: ScanResult, phase: Phase | None) -> dict[str, Any]:
    counted = coverage.dependencies(result.findings, phase)
    return {
        "total": counted.total,
        **{support.value: count for support, count in counted.by_support.items()},
        "resolved": counted.resolved,
        "lossy": counted.lossy,
        "percent": counted.percent,
        "minutes_left": _minutes(result, phase),
    }


def _operators(result: ScanResult) -> dict[str, Any]:
    counted = result.operators
    return {
        "distinct": len(counted.used),
        "calls": counted.calls,
        "unknown": counted.unknown,
        "passed": counted.passed,
        "with_kernel": sum(item.portable for item in counted.used),
        **{
            f"{direction}_percent{suffix}": counted.share(direction, calls=calls)
            for calls, suffix in ((False, ""), (True, "_of_calls"))
            for direction in ("forward", "backward", "portable")
        },
    }


def _operator(item: coverage.OperatorUse) -> dict[str, Any]:
    shown = item.places[:_PLACES]
    return {
        "name": item.name,
        "calls": item.calls,
        "unknown": item.unknown,
        "passed": item.passed,
        "kernel": item.kernel,
        "forward": item.forward,
        "backward": item.backward,
        "devices": list(item.devices),
        "dtypes": list(item.dtypes),
        "places": [{"path": at.path, "cell": at.cell, "line": at.line} for at in shown],
        "places_left_out": len(item.places) - len(shown),
    }


def _package(item: packages.Package) -> dict[str, Any]:
    declared, used = item.declared[:_PLACES], item.used[:_PLACES]
    return {
        "package": item.name,
        "imports": sorted(item.imports),
        "versions": item.versions,
        "cuda": item.cuda,
        "blocks": item.blocks,
        "what": item.what,
        "instead": item.instead,
        "required": [{"path": at.path, "cell": at.cell, "line": at.line, "spec": at.spec} for at in declared],
        "required_left_out": len(item.declared) - len(declared),
        "import_files": len(item.used),
        "import_count": item.count,
        "import_guarded": item.guarded,
        "imported": [
            {"path": at.path, "line": at.line, "count": at.count, "guarded": at.guarded, "sure": at.sure}
            for at in used
        ],
        "imported_left_out": len(item.used) - len(used),
    }


def _affected(item: reach.Affected) -> dict[str, Any]:
    return {
        "path": item.path,
        "function": item.function,
        "line": item.line,
        "distance": item.distance,
        "findings": list(item.findings),
        "findings_left_out": item.total - len(item.findings),
    }


def _affects(affects: reach.Affects, finding: Finding) -> dict[str, Any] | None:
    """How many functions come to a finding; None where it keeps none from running, as far as names show."""
    found = affects.reach.get(finding.id)
    if found is None:
        return None
    return {
        "functions": found.count,
        "entry_points": [{"path": path, "function": function} for path, function in found.entries],
    }
