"""How far apart two right runs may be: measured on runs of the original that were rounded otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from portkit.parity import curves
from portkit.parity.curves import Divergence
from portkit.parity.trace import Run

# Relative differences that are rounding in any case, by curve.  A rate and a scale are plain settings.
FLOORS = {
    "loss": 5e-6,
    "gradient norm": 5e-5,
    "loss scale": 0.0,
    "learning rate": 1e-9,
    "parameter norm": 1e-6,
}
FACTOR = 10.0  # other kernels round in more places than the two disturbed runs do
CHAOS = 0.02  # a tolerance above this says nothing any more: comparing ends there

Tolerances = Mapping[str, Sequence[float]]


def tolerances(base: Run, disturbed: Sequence[Run]) -> dict[str, list[float]]:
    """Curve → the largest relative difference that is allowed at each step; it never shrinks."""
    found = {}
    for name, curve in base.curves().items():
        others = [run.curves()[name] for run in disturbed]
        gaps = [
            max((curves.relative(value, other[step]) for other in others if step < len(other)), default=0.0)
            for step, value in enumerate(curve)
        ]
        exact = name in ("loss scale", "learning rate")
        found[name] = [max(FLOORS[name], 0.0 if exact else FACTOR * gap) for gap in accumulate(gaps, max)]
    return found


def constant(base: Run, loss: float) -> dict[str, list[float]]:
    """The same tolerance at every step, of a loss; others from it."""
    sizes = {
        "loss": loss,
        "gradient norm": loss * curves.NORM_FACTOR,
        "parameter norm": loss,
        "learning rate": FLOORS["learning rate"],
        "loss scale": FLOORS["loss scale"],
    }
    return {name: [sizes[name]] * len(curve) for name, curve in base.curves().items()}


def horizon(allowed: Tolerances) -> int:
    """The number of steps before rounding alone moves the loss too far to compare anything."""
    steps = allowed["loss"]
    return next((step for step, size in enumerate(steps) if size > CHAOS), len(steps))


def diverges(first: Run, second: Run, allowed: Tolerances) -> Divergence | None:
    """The earliest divergence of any curve, before rounding alone leads the runs apart."""
    end = horizon(allowed)
    found = []
    cut = end < len(first.losses)
    for order, name in enumerate(first.curves()):
        one, other = first.curves()[name], second.curves()[name]
        if cut:
            one, other = one[:end], other[:end]
        divergence = curves.diverges(name, one, other, allowed[name])
        if divergence:
            found.append((divergence.step, order, divergence))
    return min(found)[2] if found else None
