"""A parity document for a person at a terminal."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

STYLES = {"pass": "green", "fail": "bold red", "blind": "bold yellow", "skipped": "dim"}
_CURVE_ROWS = 12
_WIDE = ("cases", "max abs", "original", "rmse", "ulp mean", "of bound")  # original: its largest error
_NARROW = ("cases", "max abs", "of bound")


def terminal(document: Mapping[str, Any], *, colour: bool = False, width: int = 100) -> str:
    """Text: a table of operators, the training curves, and how many verdicts of each kind there are."""
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False, markup=False
    )
    rows = document["rows"]
    if rows:
        console.print(_table(rows, narrow=width < 120))
        for row in rows:
            if row["reason"] and row["status"] in ("fail", "blind"):
                name = f"{row['operator']} {row['implementation']} {row['dtype']}"
                console.print(Text(f"{name}: {row['reason']}", style=STYLES[row["status"]]), soft_wrap=True)
        console.print(_counts(rows), soft_wrap=True)
        for line in _left_out(rows):
            console.print(Text(line, style="dim"), soft_wrap=True)
    if document.get("modules"):
        console.print(_modules(document["modules"]))
    if document["training"]:
        _training(console, document["training"])
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n")).rstrip("\n")


def _table(rows: Sequence[Mapping[str, Any]], narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    devices = {row.get("device", "cpu") for row in rows} != {"cpu"}
    for name in ("operator", "kernel", "dtype", *(["device"] if devices else []), "verdict"):
        table.add_column(name, no_wrap=True)
    columns = _NARROW if narrow else _WIDE
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        if row["status"] == "skipped":
            continue
        verdict = Text(row["status"], style=STYLES[row["status"]])
        cells = _cells(row)
        first = [row["operator"], row["implementation"], row["dtype"]]
        first += [row.get("device", "cpu")] if devices else []
        table.add_row(*first, verdict, *(cells[name] for name in columns))
    return table


def _modules(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("module", "verdict"):
        table.add_column(name, no_wrap=True)
    for name in ("tensors", "of allowed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why")
    for row in rows:
        verdict = Text(row["status"], style=STYLES[row["status"]])
        share = f"{100 * float(row['worst']):.3g} %" if row["compared"] else ""
        table.add_row(row["module"], verdict, str(row["compared"]), share, row["reason"])
    return table


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    metrics, original = row["metrics"], row["original"]
    if not metrics:
        return dict.fromkeys(_WIDE, "")
    return {
        "cases": str(row["cases"]),
        "max abs": f"{float(metrics['max_abs']):.1e}",
        "original": f"{float(original['max_abs']):.1e}" if original else "",
        "rmse": f"{float(metrics['rmse']):.1e}",
        "ulp mean": f"{float(metrics['ulp_mean']):.3g}",
        "of bound": f"{100 * float(metrics['excess']):.1f} %",
    }


def _counts(rows: Sequence[Mapping[str, Any]]) -> Text:
    counts = Counter(row["status"] for row in rows)
    text = Text("Operators: ")
    for index, status in enumerate(s for s in STYLES if counts[s]):
        text.append(", " if index else "")
        text.append(f"{counts[status]} {status}", style=STYLES[status])
    return text


def _left_out(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why rows were skipped, those with the same reason in one line."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row["status"] == "skipped":
            names = reasons.setdefault(f"{row['implementation']}: {row['reason']}", [])
            if row["operator"] not in names:
                names.append(row["operator"])
    return [f"skipped {reason} ({', '.join(names)})" for reason, names in reasons.items()]


def _training(console: Console, training: Mapping[str, Any]) -> None:
    head = Text(f"Training {training['script']}: ")
    head.append(training["status"], style=STYLES[training["status"]])
    head.append(f" {training['reason']}" if training["reason"] else "")
    console.print(head, soft_wrap=True)
    first, second = training["original"], training["migrated"]
    if first and second:
        console.print(_curve_table(training, first["losses"], second["losses"]))
        for name, key in (("loss", "loss"), ("gradient norm", "gradient_norm")):
            gap = training[key]
            console.print(
                f"{name}: largest difference over {gap['steps']} steps {float(gap['max_rel']):.2e} relative, "
                f"at step {gap['worst_step']}"
            )
    for line in training.get("notes", ()):
        console.print(Text(line, style="dim"), soft_wrap=True)
    if training["controls"]:
        console.print(f"injected faults that were noticed: {', '.join(training['controls'])}", soft_wrap=True)


def _curve_table(training: Mapping[str, Any], first: Sequence[Any], second: Sequence[Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("step", *training["labels"], "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    count = min(len(first), len(second))
    step = max(1, -(-count // _CURVE_ROWS))
    for index in sorted({*range(0, count, step), count - 1} - {-1}):
        a, b = float(first[index]), float(second[index])
        table.add_row(str(index), f"{a:.6f}", f"{b:.6f}", f"{b - a:+.1e}")
    return table
