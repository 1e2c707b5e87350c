"""The report as JSON, for programs: a fixed schema, no times, no order that depends on the machine."""

from __future__ import annotations

import json
from typing import Any

import portkit
from portkit import coverage, effort, ruleset
from portkit.engine import ScanResult
from portkit.finding import Alias, Finding, Phase, Unparsed

SCHEMA_VERSION = 1


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
        "findings": [finding_data(item, result.is_new(item)) for item in result.findings],
    }


def finding_data(finding: Finding, new: bool | None = None) -> dict[str, Any]:
    """One finding as plain data; `new` is whether the baseline lacks it."""
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
    counted = coverage.operators(result.operators)
    return {
        "distinct": len(counted.used),
        "calls": sum(item.calls for item in counted.used),
        "forward_percent": counted.share("forward"),
        "backward_percent": counted.share("backward"),
        "forward_percent_of_calls": counted.share("forward", calls=True),
        "backward_percent_of_calls": counted.share("backward", calls=True),
        "used": [
            {
                "name": item.name,
                "calls": item.calls,
                "kernel": item.kernel,
                "forward": item.forward,
                "backward": item.backward,
            }
            for item in counted.used
        ],
    }
