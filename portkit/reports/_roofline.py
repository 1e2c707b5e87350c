"""The roofline of a recorded step: what each operator reached beside what probes of the same machine did."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portkit.reports._chart import Tick
from portkit.reports._timeline import spoken

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 62, 745, 12, 298
ROWS = 20  # operators in the table: those that take longest
DRAWN = 0.005  # share of the time that an operator has to take to be drawn
_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Roof:
    """A line that no operator gets above: a memory's, or that of arithmetic in a type."""

    kind: str  # memory, cache or product
    points: str
    text: str
    x: float
    y: float


@dataclass(frozen=True)
class Point:
    """One operator in the drawing."""

    number: int
    x: float
    y: float
    radius: float
    ours: bool
    label: str


def roofline(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A drawing and its table; None where no work was counted."""
    if not found or not found["operators"] or not found["peaks"]:
        return None
    rows = [row for row in found["operators"] if row["seconds"] > 0]
    total = sum(row["seconds"] for row in rows)
    chosen = rows[:ROWS]
    return {
        "drawing": _drawing(chosen, found["peaks"], total),
        "rows": [_row(number, row, found["peaks"], total) for number, row in enumerate(chosen, 1)],
        "probes": [f"{peak['what']}: {rate(peak['rate'], peak['unit'])}" for peak in found["peaks"]],
        "rest": f"{len(rows) - ROWS} more operators take {_share(rows[ROWS:], total)} of the time."
        if len(rows) > ROWS
        else "",
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": RIGHT,
        "bottom": BOTTOM,
    }


def _share(rows: Sequence[Mapping[str, Any]], total: float) -> str:
    return f"{100 * sum(row['seconds'] for row in rows) / total:.1f} %" if total else ""


def _row(
    number: int, row: Mapping[str, Any], peaks: Sequence[Mapping[str, Any]], total: float
) -> dict[str, Any]:
    roof = _roof(row, peaks)
    reached = (row["flops"] or row["bytes"]) / row["seconds"]
    return {
        "number": number,
        "name": row["name"],
        "ours": _ours(row),
        "dtype": row["dtype"],
        "calls": row["calls"],
        "time": spoken(row["seconds"]),
        "share": _share([row], total),
        "bytes": rate(row["bytes"] / row["seconds"], "B/s"),
        "flops": rate(row["flops"] / row["seconds"], "FLOP/s") if row["flops"] else "",
        "intensity": f"{row['flops'] / row['bytes']:.3g}" if row["flops"] and row["bytes"] else "",
        "roof": f"{100 * reached / roof:.3g} %" if roof else "",
    }


def _ours(row: Mapping[str, Any]) -> bool:
    return str(row["name"]).startswith(("portkit::", "kernel "))


def _roof(row: Mapping[str, Any], peaks: Sequence[Mapping[str, Any]]) -> float:
    """What the machine could do of an operator's work in a second: bytes where it computes nothing."""
    memory = next((peak["rate"] for peak in peaks if peak["unit"] == "B/s"), 0.0)
    if not row["flops"] or not row["bytes"]:
        return float(memory)
    by_memory = memory * row["flops"] / row["bytes"]
    return float(min([by_memory, *(p["rate"] for p in peaks if p["dtype"] and p["dtype"] == row["dtype"])]))


def rate(value: float, unit: str) -> str:
    """A rate with its unit."""
    for size, prefix in _SIZES:
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


# --- the drawing ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axes:
    """Powers of ten that the drawing spans: FLOP per byte across, FLOP/s up."""

    x: tuple[int, int]
    y: tuple[int, int]

    def across(self, value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (math.log10(value) - self.x[0]) / (self.x[1] - self.x[0])

    def up(self, value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (math.log10(value) - self.y[0]) / (self.y[1] - self.y[0])


def _drawing(
    rows: Sequence[Mapping[str, Any]], peaks: Sequence[Mapping[str, Any]], total: float
) -> dict[str, Any] | None:
    placed = [
        (number, row)
        for number, row in enumerate(rows, 1)
        if row["flops"] and row["bytes"] and row["seconds"] >= DRAWN * total
    ]
    if not placed:
        return None
    axes = _axes([row for _, row in placed], peaks)
    points = [
        Point(
            number=number,
            x=round(axes.across(row["flops"] / row["bytes"]), 1),
            y=round(axes.up(row["flops"] / row["seconds"]), 1),
            radius=round(7 + 11 * math.sqrt(row["seconds"] / total), 1),
            ours=_ours(row),
            label=f"{number}: {row['name']}, {rate(row['flops'] / row['seconds'], 'FLOP/s')}, "
            f"{rate(row['bytes'] / row['seconds'], 'B/s')}",
        )
        for number, row in placed
    ]
    return {
        "points": sorted(points, key=lambda point: -point.radius),  # small ones on top
        "roofs": list(_roofs(axes, peaks)),
        "x_ticks": [Tick(round(axes.across(10.0**n), 1), _power(n)) for n in range(axes.x[0], axes.x[1] + 1)],
        "y_ticks": [
            Tick(round(axes.up(10.0**n), 1), rate(10.0**n, "")) for n in range(axes.y[0], axes.y[1] + 1)
        ],
        "alt": f"Roofline of {len(points)} operators: FLOP/s over FLOP per byte, beside what probes reached",
    }


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}"


def _axes(rows: Sequence[Mapping[str, Any]], peaks: Sequence[Mapping[str, Any]]) -> _Axes:
    across = [row["flops"] / row["bytes"] for row in rows]
    up = [row["flops"] / row["seconds"] for row in rows]
    tops = [peak["rate"] for peak in peaks if peak["unit"] == "FLOP/s"]
    memory = next((peak["rate"] for peak in peaks if peak["unit"] == "B/s"), 0.0)
    ridges = [top / memory for top in tops if memory]
    return _Axes(_powers([*across, *ridges]), _powers([*up, *tops]))


def _powers(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 0.05)
    return low, max(high, low + 1)


def _roofs(axes: _Axes, peaks: Sequence[Mapping[str, Any]]) -> Iterator[Roof]:
    """Memories rise with the intensity, up to the fastest product; products are level."""
    tops = [peak["rate"] for peak in peaks if peak["unit"] == "FLOP/s"]
    ceiling = max(tops, default=10.0 ** axes.y[1])
    memories = [peak for peak in peaks if peak["unit"] == "B/s"]
    for order, peak in enumerate(memories):
        low = max(10.0 ** axes.x[0], 10.0 ** axes.y[0] / peak["rate"])
        high = min(10.0 ** axes.x[1], ceiling / peak["rate"])
        if low < high:
            ends = [(axes.across(x), axes.up(x * peak["rate"])) for x in (low, high)]
            yield _line("cache" if order else "memory", ends, peak, at=0)
    for peak in peaks:
        if peak["unit"] == "FLOP/s":
            start = peak["rate"] / max(one["rate"] for one in memories) if memories else 10.0 ** axes.x[0]
            start = min(max(start, 10.0 ** axes.x[0]), 10.0 ** axes.x[1])
            ends = [(axes.across(x), axes.up(peak["rate"])) for x in (start, 10.0 ** axes.x[1])]
            yield _line("product", ends, peak, at=1)


def _line(kind: str, ends: Sequence[tuple[float, float]], peak: Mapping[str, Any], at: int) -> Roof:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
    text = f"{peak['dtype'] or ('cache' if kind == 'cache' else 'memory')} {rate(peak['rate'], peak['unit'])}"
    x, y = ends[at]
    right, below = (0.0, -5.0) if kind == "product" else (12.0, 6.0)  # of a line that rises
    return Roof(kind, points, text, round(x + right, 1), round(min(y + below, BOTTOM - 6.0), 1))
