"""What the HTML page shows, worked out from a scan and from what came after it; no markup here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from portkit import coverage, effort, packages, reach
from portkit.finding import Finding, Phase, Support
from portkit.reports._chart import Chart, chart

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


def parity_view(parity: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The operator parity document as a table."""
    if not parity or not parity.get("rows"):
        return None
    counts = Counter(row["status"] for row in parity["rows"])
    parts = [f"{counts[name]} {name}" for name in ("pass", "fail", "blind", "skipped") if counts[name]]
    return {
        "summary": "Against a float64 oracle, forward and every gradient; the worst of all cases. "
        "A row passes if it is within the tolerance of its type, not much worse than the original "
        f"implementation, and if faults that were injected are noticed. {', '.join(parts)}.",
        "rows": [_parity_row(row) for row in parity["rows"]],
        "notes": _parity_notes(parity["rows"]),
    }


def _parity_row(row: Mapping[str, Any]) -> dict[str, Any]:
    passed = row["status"] == "pass"
    reason = "" if passed else row["reason"]
    mark = "*" if passed and row["reason"] else ""
    return {**row, "reason": reason, "mark": mark, "cells": _metric_cells(row.get("metrics"))}


def _parity_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was left out of rows that passed, once for each reason."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["status"] == "pass" and row["reason"]:
            names = found[f"{row['implementation']}: {row['reason']}"]
            if row["operator"] not in names:
                names.append(row["operator"])
    return [f"{reason} ({', '.join(names)})" for reason, names in found.items()]


def _metric_cells(metrics: Mapping[str, Any] | None) -> list[str]:
    if not metrics:
        return [""] * 7
    names = ("max_abs", "max_rel", "rmse", "ulp_max", "ulp_mean")
    cosine, excess = float(metrics["cosine"]), float(metrics["excess"])
    cells = [f"{float(metrics[name]):.2e}" if name[0] != "u" else _short(metrics[name]) for name in names]
    return [*cells, f"{cosine:.6f}", f"{100 * excess:.1f} %"]


def _short(value: Any) -> str:
    number = float(value)
    return f"{number:.2f}" if number < 100 else f"{number:.3g}"


def training_view(training: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The training document as charts."""
    if not training:
        return None
    labels = training["labels"]
    return {
        "status": training["status"],
        "summary": _training_summary(training),
        "labels": labels,
        "charts": list(filter(None, [_curve(training, "losses", "Loss"),
                                     _curve(training, "norms", "Gradient norm")])),
    }  # fmt: skip


def _curve(training: Mapping[str, Any], key: str, title: str) -> Chart | None:
    runs = [training.get("original"), training.get("migrated")]
    curves = [[float(v) for v in run[key]] if run else [] for run in runs]
    distance = training.get({"losses": "loss", "norms": "gradient_norm"}[key])
    caption = ""
    if distance:
        caption = (
            f"Largest difference over {distance['steps']} steps: {float(distance['max_rel']):.2e} relative, "
            f"at step {distance['worst_step']}."
        )
    return chart(title, curves, caption=caption)


def _training_summary(training: Mapping[str, Any]) -> str:
    tolerance = training["tolerance"]
    allowed = "as rounding moves the original" if tolerance is None else f"{tolerance:g}"
    parts = [f"{training['script']}, seed {training['seed']}, tolerance {allowed}."]
    if training["reason"]:
        parts.append(training["reason"] + ".")
    if training.get("controls"):
        parts.append(f"Injected faults that were noticed: {', '.join(training['controls'])}.")
    return " ".join(parts)
