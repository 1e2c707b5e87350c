"""What parity and recorded runs say, as tables and charts of the HTML page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from portkit.reports._chart import Chart, chart
from portkit.reports._roofline import roofline
from portkit.reports._timeline import spoken, timeline

STATUSES = ("pass", "fail", "blind", "skipped")


def parity_view(parity: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The operator parity document as a table."""
    if not parity or not parity.get("rows"):
        return None
    counts = Counter(row["status"] for row in parity["rows"])
    parts = [f"{counts[name]} {name}" for name in STATUSES if counts[name]]
    return {
        "summary": "Against a float64 oracle, forward and every gradient; the worst of all cases. "
        "A row passes if it is within the tolerance of its type, not much worse than the original "
        f"implementation, and if faults that were injected are noticed. {', '.join(parts)}.",
        "rows": [_parity_row(row) for row in parity["rows"]],
        "devices": any(row.get("device", "cpu") != "cpu" for row in parity["rows"]),
        "notes": _parity_notes(parity["rows"]),
    }


def _parity_row(row: Mapping[str, Any]) -> dict[str, Any]:
    passed = row["status"] == "pass"
    reason = "" if passed else row["reason"]
    mark = "*" if passed and row["reason"] else ""
    return {
        **row,
        "device": row.get("device", "cpu"),
        "reason": reason,
        "mark": mark,
        "cells": _metric_cells(row.get("metrics"), row.get("original")),
    }


def _parity_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was left out of rows that passed, once for each reason."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["status"] == "pass" and row["reason"]:
            names = found[f"{row['implementation']}: {row['reason']}"]
            if row["operator"] not in names:
                names.append(row["operator"])
    return [f"{reason} ({', '.join(names)})" for reason, names in found.items()]


def _metric_cells(metrics: Mapping[str, Any] | None, original: Mapping[str, Any] | None) -> list[str]:
    """Ours, with the largest error of the original implementation beside our own."""
    if not metrics:
        return [""] * 8
    names = ("max_abs", "max_rel", "rmse", "ulp_max", "ulp_mean")
    cosine, excess = float(metrics["cosine"]), float(metrics["excess"])
    cells = [f"{float(metrics[name]):.2e}" if name[0] != "u" else _short(metrics[name]) for name in names]
    theirs = f"{float(original['max_abs']):.2e}" if original else ""
    return [cells[0], theirs, *cells[1:], f"{cosine:.6f}", f"{100 * excess:.1f} %"]


def _short(value: Any) -> str:
    number = float(value)
    return f"{number:.2f}" if number < 100 else f"{number:.3g}"


def module_view(parity: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The module parity document as a table."""
    rows = (parity or {}).get("modules") or []
    if not rows:
        return None
    counts = Counter(row["status"] for row in rows)
    parts = [f"{counts[name]} {name}" for name in STATUSES if counts[name]]
    return {
        "summary": "Modules of both trees with one state and the same inputs, in training and in evaluation: "
        "results, gradients and buffers. What rounding accounts for is measured on the original, rounded "
        f"otherwise. {', '.join(parts)}.",
        "rows": [_module_row(row) for row in rows],
    }


def _module_row(row: Mapping[str, Any]) -> dict[str, Any]:
    compared = row.get("compared") or 0
    return {
        "module": row["module"] or "(whole program)",
        "type": row.get("type", ""),
        "status": row["status"],
        "compared": compared,
        "worst": f"{100 * float(row.get('worst') or 0.0):.3g} %" if compared else "",
        "controls": row.get("controls") or 0,
        "reason": row["reason"],
    }


def run_view(run: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded run: how it was made, its timeline and its roofline."""
    found = run["timeline"]
    device = " ".join(filter(None, [found["device"], found["name"]])) if found else "without a timeline"
    return {
        "label": run["label"],
        "summary": f"{run['script']} on {device}; {_threads(found)}{_pace(found, run['seconds'])}",
        "timeline": timeline(found),
        "roofline": roofline(found),
        "perfetto": run.get("perfetto", ""),
    }


def _threads(found: Mapping[str, Any] | None) -> str:
    if not found or found["device"] != "cpu":
        return ""
    return f"{found['threads']} thread{'' if found['threads'] == 1 else 's'}; "


def _pace(found: Mapping[str, Any] | None, seconds: float) -> str:
    steps = [event[5] for event in found["events"] if event[2] == "step"] if found else []
    if steps:
        return f"a step took {spoken(min(steps) / 1e6)} while it was profiled."
    return f"a step took {spoken(seconds)}." if seconds else "too few steps to time one."


def training_view(training: Mapping[str, Any]) -> dict[str, Any]:
    """A training document as charts."""
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
    parts += [f"{note}." for note in training.get("notes") or ()]
    if training.get("controls"):
        parts.append(f"Injected faults that were noticed: {', '.join(training['controls'])}.")
    return " ".join(parts)
