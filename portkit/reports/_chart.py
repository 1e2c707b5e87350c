"""Line charts as numbers that a template can write into an SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 760, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 745, 12, 238
STYLES = ("first", "second")


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where it is in the drawing, and what it says."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """One curve: points in the drawing, and the class that styles it."""

    style: str
    points: str


@dataclass(frozen=True)
class Chart:
    """A drawing of one or two curves over steps."""

    title: str
    alt: str
    caption: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    bottom: int = BOTTOM
    x_label: str = "step"


def chart(
    title: str,
    curves: Sequence[Sequence[float]],
    *,
    caption: str = "",
    x_label: str = "step",
    from_zero: bool = False,
) -> Chart | None:
    """A chart of curves that share their x axis (steps from 0); None if there is nothing to draw.

    Values that are not finite leave a gap at their step.
    """
    finite = [value for curve in curves for value in curve if math.isfinite(value)]
    steps = max((len(curve) for curve in curves), default=0)
    if not finite or steps < 1:
        return None
    values = nice(min([*finite, 0.0] if from_zero else finite), max(finite))
    low, high = values[0], values[-1]

    def x(step: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * step / max(1, steps - 1), 2)

    def y(value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low), 2)

    lines = tuple(
        Line(style, " ".join(f"{x(i)},{y(v)}" for i, v in enumerate(curve) if math.isfinite(v)))
        for style, curve in zip(STYLES, curves, strict=False)
    )
    marks = [step for step in nice(0, max(1, steps - 1)) if step <= steps - 1 and step == int(step)]
    ends = [f"from {curve[0]:.4g} to {curve[-1]:.4g}" for curve in curves if curve]
    return Chart(
        title=title,
        alt=f"{title} over {steps} {x_label}s: {'; '.join(ends)}",
        caption=caption,
        x_ticks=tuple(Tick(x(step), f"{step:g}") for step in marks),
        y_ticks=tuple(Tick(y(value), f"{value:g}") for value in values),
        lines=lines,
        x_label=x_label,
    )


def nice(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that enclose [low, high], about `count` of them, evenly spaced."""
    span = high - low or abs(high) or 1.0
    raw = span / count
    unit = 10.0 ** math.floor(math.log10(raw))
    width = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
    first, last = math.floor(low / width + 1e-9), math.ceil(high / width - 1e-9)
    if last == first:
        last += 1
    return [round(index * width, 12) for index in range(first, last + 1)]
