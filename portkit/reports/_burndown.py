"""The burn-down of a repository from its history: findings and effort that were left after each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portkit import effort
from portkit.history import Point
from portkit.reports._chart import Chart, chart

_ROWS = 20  # runs that the table lists


def burndown(points: Sequence[Point]) -> dict[str, Any] | None:
    """Charts and the newest runs; None without a run that looked at the code."""
    counted = [point for point in points if point.counts is not None]
    if not counted:
        return None
    first, last = counted[0], counted[-1]
    drawn = [
        _chart("Findings left", [point.open() for point in counted]),
        _chart("Hours of effort left", [(point.minutes or 0) / 60 for point in counted]),
    ]
    hours = [effort.spoken(point.minutes or 0) for point in (first, last)]
    return {
        "summary": f"{len(points)} runs from {_day(points[0])} to {_day(points[-1])}: {_findings(first)}"
        f" and {hours[0]} of effort left at first, {last.open()} and {hours[1]} now.",
        "charts": [one for one in drawn if one is not None] if len(counted) > 1 else [],
        "rows": [_row(point) for point in reversed(points[-_ROWS:])],
    }


def _findings(point: Point) -> str:
    return f"{point.open()} finding{'' if point.open() == 1 else 's'}"


def _chart(title: str, values: Sequence[float]) -> Chart | None:
    caption = f"From {values[0]:.4g} to {values[-1]:.4g}."
    return chart(title, [values, []], caption=caption, x_label="run", from_zero=True)


def _row(point: Point) -> dict[str, str]:
    known = point.counts is not None
    return {
        "time": point.time[:16].replace("T", " "),
        "event": point.event,
        "left": str(point.open()) if known else "",
        "effort": effort.spoken(point.minutes) if point.minutes is not None else "",
        "detail": point.detail,
    }


def _day(point: Point) -> str:
    return point.time[:10]
