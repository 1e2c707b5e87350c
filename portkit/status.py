"""Where a repository stands: what each phase still holds, what was rewritten, and the burn-down so far."""

from __future__ import annotations

import io
import json
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from portkit import config, effort, engine, history, manifest
from portkit.engine import Progress, ScanResult
from portkit.errors import UsageError
from portkit.finding import Phase, Support
from portkit.history import Point
from portkit.reports import _next

SCHEMA_VERSION = 1
_SHOWN = 12  # points of the burn-down
_BAR = 30
_OPEN = (Support.AUTO, Support.REVIEW, Support.MANUAL, Support.UNKNOWN)
_STYLE = {"done": "green", "in progress": "yellow", "not started": "", "nothing to do": "dim"}


@dataclass(frozen=True)
class PhaseStatus:
    """One phase."""

    phase: Phase
    counts: dict[Support, int]  # that are left, by support
    rewritten: int  # edits that stand
    first: int  # open findings at the first scan
    minutes: int

    @property
    def open(self) -> int:
        return sum(self.counts[support] for support in _OPEN)

    @property
    def state(self) -> str:
        if not self.open:
            return "done" if self.rewritten or self.first else "nothing to do"
        return "in progress" if self.rewritten or self.open < self.first else "not started"


@dataclass(frozen=True)
class Status:
    """A repository as it is now, and as it was."""

    root: Path
    phases: tuple[PhaseStatus, ...]
    points: tuple[Point, ...]  # of the past, with counts, oldest first
    now: Point
    damaged: int  # lines of the history
    unparsed: int
    tracked: bool  # whether there is a history at all
    next: str

    @property
    def phase(self) -> Phase | None:
        """The phase that the repository is in: the first that is not done; None if all are."""
        return next((item.phase for item in self.phases if item.open), None)


def of(path: Path, *, progress: Progress | None = None) -> Status:
    """Scan a repository and read its record; writes nothing.

    Raises UsageError for a path that is not there, ConfigError, and ManifestError.
    """
    if not path.exists():
        raise UsageError("There is no such folder.", place=str(path), remedy="Check the path.")
    here = path if path.is_dir() else path.parent
    above = [place for place in (here, *here.absolute().parents) if history.folder(place).is_dir()]
    root = above[0] if above else here
    result = engine.scan([root], config.load(root), progress=progress)
    points, damaged = history.read(root)
    counts, minutes = history.counted(result.findings)
    now = Point("", "now", counts, minutes)
    known = [point for point in points if point.counts is not None]
    first = known[0] if known else now
    edits = Counter(edit.phase for run in manifest.runs_of(root) for file in run.files for edit in file.edits)
    phases = tuple(
        PhaseStatus(
            phase,
            {support: counts[phase.value][support.value] for support in Support},
            edits[phase.value],
            first.open(phase),
            effort.left(result.findings, phase).minutes,
        )
        for phase in Phase
    )
    return Status(
        root, phases, tuple(known), now, damaged, len(result.unparsed), bool(above), _command(result, root)
    )


def _command(result: ScanResult, root: Path) -> str:
    command = _next.command(result)
    if not command:
        return f"portkit parity {shlex.quote(str(root))}"
    if " migrate " not in command:
        return command
    waiting = [item for item in result.findings if f"--phase {item.phase.value}" in command]
    safe = any(item.support is Support.AUTO for item in waiting)
    return f"{command} --write" if safe else f"{command} --unsafe --interactive"


# --- for programs ---------------------------------------------------------------------------------------


def as_json(status: Status) -> str:
    """The status as JSON."""
    table: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "root": str(status.root),
        "phase": status.phase.value if status.phase is not None else None,
        "phases": {
            item.phase.value: {
                "state": item.state,
                "left": {support.value: item.counts[support] for support in _OPEN},
                "portable": item.counts[Support.PORTABLE],
                "rewritten": item.rewritten,
                "minutes": item.minutes,
            }
            for item in status.phases
        },
        "unparsed": status.unparsed,
        "burn_down": [_row(point) for point in status.points],
        "now": _row(status.now),
        "damaged_lines": status.damaged,
        "next": status.next,
    }
    return json.dumps(table, indent=2, ensure_ascii=False)


def _row(point: Point) -> dict[str, Any]:
    return {
        "time": point.time,
        "event": point.event,
        "left": {phase.value: point.open(phase) for phase in Phase},
        "minutes": point.minutes,
        "detail": point.detail,
    }


# --- for people -----------------------------------------------------------------------------------------


def as_text(status: Status, *, colour: bool = False, width: int = 100) -> str:
    """The status as tables, with ANSI colours if `colour`."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in _parts(status):
        console.print(part, soft_wrap=isinstance(part, Text))
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n")).rstrip("\n")


def _parts(status: Status) -> Iterator[RenderableType]:
    phase = status.phase
    yield Text(f"{status.root}: {f'in phase {phase.value}' if phase else 'nothing is left to do'}")
    yield Text("")
    yield _table(status)
    if status.unparsed:
        yield Text(f"{status.unparsed} files could not be parsed: they may hold more", style="yellow")
    yield Text("")
    yield from _burn_down(status)
    if status.damaged:
        yield Text(f"{status.damaged} damaged lines of {history.NAME} are left out", style="yellow")
    yield Text("")
    yield Text(f"Next: {status.next}")


def _table(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("phase")
    table.add_column("state")
    for support in _OPEN:
        table.add_column(support.value, justify="right")
    table.add_column("rewritten", justify="right")
    table.add_column("effort left", justify="right")
    for item in status.phases:
        cells = [str(item.counts[support] or "·") for support in _OPEN]
        left = effort.spoken(item.minutes) if item.minutes else "·"
        state = Text(item.state, style=_STYLE[item.state])
        table.add_row(item.phase.value, state, *cells, str(item.rewritten or "·"), left)
    return table


def _burn_down(status: Status) -> Iterator[RenderableType]:
    if not status.points:
        yield Text(
            "No history yet: it begins with the first migration that is written."
            if not status.tracked
            else "No history yet: `portkit scan` of this folder begins it."
        )
        return
    points = list(status.points)
    first, left = points[0].open(), status.now.open()
    if len(points) > _SHOWN:
        points = [points[0], *points[-_SHOWN + 1 :]]
    share = f" ({100 * (first - left) / first:.0f} % done)" if first >= left and first else ""
    yield Text(f"Burn-down: {left} left of {first} at the first scan{share}")
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    most = max([point.open() for point in points] + [left, 1])
    for point in [*points, status.now]:
        bar = "#" * round(_BAR * point.open() / most)
        effort_left = effort.spoken(point.minutes) if point.minutes else "·"
        table.add_row(
            point.time[:16].replace("T", " ") or "now",
            point.event if point.time else "",
            str(point.open()),
            Text(bar, style="cyan"),
            effort_left,
        )
    yield table
