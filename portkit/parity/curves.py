"""Loss and gradient-norm curves of two runs, compared step by step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from portkit.parity.compare import Status, plain

# Gradient norms are dominated by few large entries and move more than losses for the same rounding.
NORM_FACTOR = 10.0
FAULT_SIZE = 0.05


@dataclass(frozen=True)
class Divergence:
    """The first place where two curves are further apart than allowed."""

    curve: str  # "loss", "gradient norm", ...
    step: int  # from 0
    original: float
    migrated: float

    def __str__(self) -> str:
        return f"{self.curve} at step {self.step}: {self.original:.8g} became {self.migrated:.8g}"


@dataclass(frozen=True)
class CurveMetrics:
    """How far two curves are apart over the steps that both have."""

    steps: int
    max_abs: float
    max_rel: float
    worst_step: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "steps": self.steps,
            "max_abs": plain(self.max_abs),
            "max_rel": plain(self.max_rel),
            "worst_step": self.worst_step,
        }


def relative(one: float, other: float) -> float:
    """Relative difference; 0 where both are the same (also both NaN), infinite where only one is finite."""
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.inf
    return abs(one - other) / max(abs(one), abs(other), 1e-30)


def difference(original: Sequence[float], migrated: Sequence[float]) -> CurveMetrics:
    """Largest absolute and relative difference of two curves, and the step of the latter."""
    pairs = list(zip(original, migrated, strict=False))
    if not pairs:
        return CurveMetrics(0, 0.0, 0.0, 0)
    gaps = [relative(a, b) for a, b in pairs]
    worst = max(range(len(gaps)), key=gaps.__getitem__)
    return CurveMetrics(
        steps=len(pairs),
        max_abs=max(abs(a - b) if a != b else 0.0 for a, b in pairs),
        max_rel=gaps[worst],
        worst_step=worst,
    )


def diverges(
    curve: str,
    original: Sequence[float],
    migrated: Sequence[float],
    tolerance: float | Sequence[float],
) -> Divergence | None:
    """The first step at which two curves are further apart than `tolerance` (relative), or end apart.

    A tolerance may be given for each step of the original.
    """
    allowed = [tolerance] * len(original) if isinstance(tolerance, float) else tolerance
    for step, (one, other) in enumerate(zip(original, migrated, strict=False)):
        if relative(one, other) > allowed[step]:
            return Divergence(curve, step, one, other)
    if len(original) != len(migrated):
        step = min(len(original), len(migrated))
        one = original[step] if step < len(original) else math.nan
        other = migrated[step] if step < len(migrated) else math.nan
        return Divergence(curve, step, one, other)
    return None


def faults(curve: Sequence[float]) -> Iterator[tuple[str, list[float]]]:
    """Damaged copies of a curve, each with the name of its damage."""
    middle, last = len(curve) // 2, len(curve) - 1
    yield "one step off by 5%", [v * (1 + FAULT_SIZE * (i == middle)) for i, v in enumerate(curve)]
    yield "the last step is NaN", [math.nan if i == last else v for i, v in enumerate(curve)]
    yield "the last step is missing", list(curve[:-1])
    late = [curve[0], *curve[:-1]]
    if max(map(relative, late, curve)) > FAULT_SIZE:
        yield "one step late", late


def control(
    curve: Sequence[float], tolerance: float | Sequence[float]
) -> tuple[Status, str, tuple[str, ...]]:
    """Whether a comparison at this tolerance can fail on this curve: status, reason, faults caught."""
    caught: list[str] = []
    for name, broken in faults(curve):
        if diverges("loss", curve, broken, tolerance) is None:
            return Status.BLIND, f"an injected fault ({name}) went unnoticed", tuple(caught)
        caught.append(name)
    return Status.PASS, "", tuple(caught)
