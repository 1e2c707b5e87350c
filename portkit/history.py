"""The history of a repository in `.portkit/history.jsonl`: what was left after each run, one line a run.

Only folders that hold a `.portkit` get one: a scan of a foreign tree leaves nothing behind.  A damaged line
is left out and counted; of too many lines, the first and the newest stay.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import portkit
from portkit import coverage, effort, manifest
from portkit.errors import PortkitError
from portkit.files import write_atomically
from portkit.finding import Finding, Phase, Support

NAME = "history.jsonl"
_MOST = 1000  # lines
_OPEN = (Support.AUTO, Support.REVIEW, Support.MANUAL, Support.UNKNOWN)

Counts = Mapping[str, Mapping[str, int]]  # phase → support → findings


@dataclass(frozen=True)
class Point:
    """What one run found, or left."""

    time: str  # ISO 8601, UTC
    event: str  # "scan" | "migrate" | "undo" | "parity" | "gate"
    counts: Counts | None = None  # None: the run did not look at the code
    minutes: int | None = None  # of effort left
    detail: str = ""

    def open(self, phase: Phase | None = None) -> int:
        """How many findings were left to do, of one phase or of all."""
        phases = [phase] if phase is not None else list(Phase)
        counts = self.counts or {}
        return sum(counts.get(p.value, {}).get(support.value, 0) for p in phases for support in _OPEN)


def folder(root: Path) -> Path:
    """Where the history of a tree lies, if it has one."""
    return root / manifest.FOLDER


def counted(findings: Iterable[Finding]) -> tuple[Counts, int]:
    """Counts by phase and support, and minutes of effort left."""
    found = list(findings)
    counts = {
        phase.value: {
            support.value: number
            for support, number in coverage.dependencies(found, phase).by_support.items()
        }
        for phase in Phase
    }
    return counts, effort.left(found).minutes


def note(root: Path, event: str, findings: Iterable[Finding] | None = None, detail: str = "") -> None:
    """Add a line to the history of a tree that has a `.portkit`; what hinders that is said, and no more."""
    if not folder(root).is_dir():
        return
    now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    counts, minutes = counted(findings) if findings is not None else (None, None)
    row: dict[str, Any] = {"time": now, "event": event, "portkit": portkit.__version__}
    if counts is not None:
        row |= {"counts": counts, "minutes": minutes}
    if detail:
        row["detail"] = detail
    try:
        _append(folder(root) / NAME, json.dumps(row, ensure_ascii=False))
    except (PortkitError, OSError) as error:
        print(f"portkit: the history was not written: {error}", file=sys.stderr)


def _append(file: Path, line: str) -> None:
    old = file.read_bytes().decode("utf-8", "replace").splitlines() if file.exists() else []
    rows = [row for row in old if row.strip()]
    if len(rows) >= _MOST:
        rows = [rows[0], *rows[len(rows) - _MOST + 2 :]]
    write_atomically(file, "".join(f"{row}\n" for row in [*rows, line]).encode())


def read(root: Path) -> tuple[list[Point], int]:
    """The points of a tree, oldest first, and how many lines were damaged."""
    file = folder(root) / NAME
    try:
        lines = file.read_bytes().decode("utf-8", "replace").splitlines()
    except OSError:
        return [], 0
    found = [_point(line) for line in lines if line.strip()]
    points = [point for point in found if point is not None]
    return points, len(found) - len(points)


def _point(line: str) -> Point | None:
    try:
        row = json.loads(line)
        counts = row.get("counts")
        if counts is not None:
            counts = {
                str(phase): {str(support): int(number) for support, number in table.items()}
                for phase, table in counts.items()
            }
        minutes = row.get("minutes")
        return Point(
            time=datetime.fromisoformat(str(row["time"]).replace("Z", "+00:00")).isoformat(),
            event=str(row["event"]),
            counts=counts,
            minutes=int(minutes) if minutes is not None else None,
            detail=str(row.get("detail", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def began_with_migration(root: Path) -> bool:
    """Whether the first migration made the folder, so that undoing all may remove it."""
    points, _ = read(root)
    return bool(points) and points[0].detail == BEFORE


BEFORE = "before the first migration"


def forget(root: Path) -> None:
    """Remove the history, and its folder if nothing else is in it."""
    (folder(root) / NAME).unlink(missing_ok=True)
    if folder(root).is_dir() and not any(folder(root).iterdir()):
        folder(root).rmdir()
