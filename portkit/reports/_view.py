"""What the HTML page shows, worked out from a scan and from what came after it; no markup here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from portkit import coverage, effort, packages, reach
from portkit.finding import Finding, Phase, Support

SUPPORTS = [support.value for support in Support]
ABOUT = {
    Phase.OPERATOR: "Tensor calls and kernels. Still runs on the old GPU afterwards.",
    Phase.MODULE: "Layers, mixed precision, autograd functions. Runs on either device.",
    Phase.FULL_MODEL: "Devices, distribution, checkpoints, scripts. Runs without CUDA.",
}
CUDA = {
    packages.ONLY: "needs CUDA",
    packages.BUILD: "CUDA build",
    packages.PARTLY: "in part",
    packages.PORTABLE: "no",
    packages.UNKNOWN: "not known",
}
SUPPORT_HELP = (
    "portable: fine already. auto: a safe rewrite. review: a rewrite that changes behaviour somewhere, "
    "applied with --unsafe. manual: a person must act. unknown: perhaps no dependency at all."
)


def percent(part: int, whole: int) -> str:
    """A share as text; never 100 % unless it is all, never 0 % unless it is nothing."""
    if whole == 0:
        return "none"
    value = 100.0 * part / whole
    if 0 < part < whole:
        value = min(99.0, max(1.0, value))
    return f"{value:.0f} %"


def phase_cards(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One card a phase: share resolved, counts by support, what is left."""
    cards = []
    for phase in Phase:
        counted = coverage.dependencies(findings, phase)
        parts = [{"name": s.value, "count": count} for s, count in counted.by_support.items()]
        shown = [f"{part['count']} {part['name']}" for part in parts if part["count"]]
        rest = [text for text in shown if not text.endswith((" portable", " auto"))]
        cards.append(
            {
                "name": phase.value,
                "share": percent(counted.resolved, counted.total),
                "resolved": counted.resolved,
                "total": counted.total,
                "parts": parts,
                "label": ", ".join(shown),
                "about": ABOUT[phase],
                "effort": effort.spoken(effort.left(findings, phase).minutes),
                "rest": f"Left: {', '.join(rest) or 'nothing'}. Seen in part: {counted.lossy}.",
            }
        )
    return cards


def matrix(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Counts by phase and support, with a last row for all phases."""
    rows = []
    for phase in (*Phase, None):
        counted = coverage.dependencies(findings, phase)
        rows.append(
            {
                "name": phase.value if phase else "all",
                "counts": list(counted.by_support.values()),
                "total": counted.total,
                "lossy": counted.lossy,
            }
        )
    return rows


def rule_rows(findings: Sequence[Finding], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """One row a rule, the most frequent first."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.rule].append(finding)
    rows = [
        {
            "id": rule,
            "name": names.get(rule, "").replace("_", " "),
            "phase": ", ".join(sorted({f.phase.value for f in group}, key=lambda p: Phase(p).rank)),
            "count": len(group),
            "files": len({f.location.path for f in group}),
            "parts": [
                {"name": name, "count": count}
                for name in SUPPORTS
                if (count := sum(f.support.value == name for f in group))
            ],
        }
        for rule, group in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["id"]))


def file_groups(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Findings by file, in order of place."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.location.path].append(finding)
    return [{"path": path, "rows": [_finding(f) for f in group]} for path, group in sorted(groups.items())]


def _finding(finding: Finding) -> dict[str, Any]:
    place = finding.location
    cell = f"cell {place.cell}, " if place.cell is not None else ""
    return {
        "place": f"{cell}line {place.line}",
        "rule": finding.rule,
        "phase": finding.phase.value,
        "support": finding.support.value,
        "lossy": finding.lossy,
        "scope": finding.scope,
        "message": finding.message,
        "snippet": finding.snippet,
        "remedy": finding.remedy,
        "note": finding.note,
        "guard": finding.guard,
    }


def operator_rows(counted: coverage.Operators) -> list[dict[str, Any]]:
    """Operators that the program uses, those with a portable kernel first, the most frequent first."""
    rows = [
        {
            "name": use.name,
            "count": use.calls,
            "perhaps": use.unknown + use.passed,
            "operator": use.kernel or "",
            "forward": _yes(use.forward),
            "backward": _yes(use.backward),
            "where": _places(use.places),
        }
        for use in counted.every
    ]
    return sorted(rows, key=lambda row: not row["operator"])


def _places(places: Sequence[coverage.Place]) -> str:
    """The files of the places, the one with the most first."""
    files = Counter(at.path for at in places).most_common()
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0][0]}{more}" if files else ""


def operator_summary(counted: coverage.Operators) -> dict[str, Any]:
    """The coverage of operators: what has a kernel, and what the share leaves out."""
    uses = [(item.calls, item.portable) for item in counted.used]
    covered = sum(calls for calls, portable in uses if portable)
    return {
        "share": percent(covered, counted.calls),
        "covered": covered,
        "calls": counted.calls,
        "used": len(counted.used),
        "portable": sum(portable for _, portable in uses),
        "left": f"Not among these: {counted.unknown} calls that may be of tensors, {counted.passed} places "
        "that pass an operator on.",
    }


def affected_rows(
    affects: reach.Affects, findings: Sequence[Finding], limit: int = 30
) -> list[dict[str, Any]]:
    """The findings that most functions come to, by place and message; those of one function once."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for finding in findings:
        found = affects.reach.get(finding.id)
        if found is None or not found.count:
            continue
        key = (finding.rule, finding.location.path, finding.scope)
        row = rows.setdefault(
            key,
            {
                "rule": finding.rule,
                "place": f"{finding.location.path}:{finding.location.line}",
                "scope": finding.scope or "at import",
                "message": finding.message,
                "findings": 0,
                "functions": found.count,
                "entries": [_node(*entry) for entry in found.entries],
            },
        )
        row["findings"] += 1
    return sorted(rows.values(), key=lambda row: (-row["functions"], row["place"]))[:limit]


def package_rows(found: Sequence[packages.Package]) -> list[dict[str, Any]]:
    """The packages of others, those that need CUDA first."""
    return [
        {
            "name": item.name,
            "versions": ", ".join(item.versions) or "any",
            "cuda": CUDA[item.cuda],
            "blocks": item.blocks,
            "instead": item.instead,
            "declared": ", ".join(dict.fromkeys(at.path for at in item.declared)),
            "files": len(item.used),
            "count": item.count,
            "guarded": item.guarded,
        }
        for item in found
    ]


def _node(path: str, function: str) -> str:
    return path if function == "__main__" else f"{path}: {function}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def change_summary(files: Sequence[Mapping[str, Any]]) -> str:
    """How much was changed, in a sentence."""
    added, removed = sum(f["added"] for f in files), sum(f["removed"] for f in files)
    return (
        f"{len(files)} file{'' if len(files) == 1 else 's'} changed: {added} lines added, {removed} removed."
    )
