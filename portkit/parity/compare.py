"""Metrics of a result against the float64 oracle, and the verdict that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Explicit bits of the significand and the smallest normal exponent, for ULPs.
FORMATS = {"float64": (52, -1022), "float32": (23, -126), "float16": (10, -14), "bfloat16": (7, -126)}

THRESHOLDS = (1e-6, 1e-4, 1e-2)  # of relative error, for the share of elements above each

# How much larger than the original implementation's own error ours may be, ...
MAX_FACTOR = 4.0
RMSE_FACTOR = 2.0
# ... plus so many units in the last place of the largest element: two implementations that round at
# different places differ by that much, those that round to 16 bits only at the end by less.
UNITS = {"float64": 16.0, "float32": 16.0, "float16": 4.0, "bfloat16": 2.0}
ZERO_SHARE = 0.05  # of the absolute tolerance, instead of units, where the oracle is zero throughout


class Status(str, Enum):
    """What a comparison came to."""

    PASS = "pass"
    FAIL = "fail"
    BLIND = "blind"  # an injected fault went unnoticed: the comparison proves nothing
    SKIPPED = "skipped"


class Bound(Protocol):
    """An absolute and a relative tolerance: `|actual - oracle| <= atol + rtol * |oracle|`."""

    @property
    def atol(self) -> float: ...
    @property
    def rtol(self) -> float: ...


@dataclass(frozen=True)
class Limits:
    """A plain `Bound`."""

    atol: float
    rtol: float


@dataclass(frozen=True)
class Metrics:
    """How far a result is from the oracle, over all elements where both are finite."""

    elements: int
    max_abs: float
    max_rel: float  # over elements whose oracle is not zero
    rmse: float
    cosine: float  # 1.0 where the oracle is zero throughout: it has no direction
    ulp_max: float  # in units of the last place, at the oracle's magnitude but no smaller than atol
    ulp_mean: float
    ulp_share: float  # share of elements that are off by more than one ULP
    over: dict[str, float]  # threshold of relative error → share of elements above it
    nonfinite: int  # elements where one side is NaN or infinite and the other is not the same
    excess: float  # largest error in units of the bound; at most 1 where the bound holds

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; infinities become strings, which JSON can hold."""
        return {key: plain(value) for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Verdict:
    """What a comparison came to, why, and by which numbers."""

    status: Status
    reason: str
    metrics: Metrics | None = None
    original: Metrics | None = None  # of the original implementation, against the same oracle
    controls: tuple[str, ...] = ()  # faults that were injected and caught

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "status": self.status.value,
            "reason": self.reason,
            "metrics": self.metrics.to_dict() if self.metrics else None,
            "original": self.original.to_dict() if self.original else None,
            "controls": list(self.controls),
        }


def plain(value: Any) -> Any:
    """A value that JSON can hold: NaN and infinities become their names."""
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def ulp(values: Array, dtype: str) -> NDArray[np.float64]:
    """Distance between neighbouring numbers of `dtype` at the size of each value (float64, same shape)."""
    bits, lowest = FORMATS[dtype]
    size = np.maximum(np.abs(np.asarray(values, dtype=np.float64)), 2.0**lowest)
    spacing: NDArray[np.float64] = np.ldexp(1.0, np.frexp(size)[1] - 1 - bits)
    return spacing


def measure(actual: Array, oracle: Array, dtype: str, bound: Bound) -> Metrics:
    """Metrics of `actual` (any real dtype) against `oracle` (float64) of the same shape.

    `dtype` names the format in which `actual` was computed.
    """
    got = np.asarray(actual, dtype=np.float64).ravel()
    want = np.asarray(oracle, dtype=np.float64).ravel()
    finite = np.isfinite(got) & np.isfinite(want)
    with np.errstate(invalid="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
    nonfinite = int(np.count_nonzero(~finite & ~same))
    got, want = got[finite], want[finite]
    if got.size == 0:
        return Metrics(0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, _shares(got), nonfinite, 0.0)
    error = np.abs(got - want)
    relative = _relative(error, want)
    ulps = error / ulp(np.maximum(np.abs(want), bound.atol), dtype)
    return Metrics(
        elements=int(got.size),
        max_abs=float(error.max()),
        max_rel=float(relative.max()),
        rmse=float(np.sqrt(np.mean(np.square(error)))),
        cosine=_cosine(got, want),
        ulp_max=float(ulps.max()),
        ulp_mean=float(ulps.mean()),
        ulp_share=float(np.mean(ulps > 1.0)),
        over=_shares(relative),
        nonfinite=nonfinite,
        excess=_excess(error, want, bound),
    )


def _relative(error: Array, want: Array) -> Array:
    size = np.abs(want)
    return np.divide(error, size, out=np.zeros_like(error), where=size > 0)


def _shares(relative: Array) -> dict[str, float]:
    return {f"{t:g}": float(np.mean(relative > t)) if relative.size else 0.0 for t in THRESHOLDS}


def _cosine(got: Array, want: Array) -> float:
    """Cosine of the angle between two vectors; they are scaled first, so that nothing overflows."""
    size_got, size_want = np.abs(got).max(), np.abs(want).max()
    if size_got == 0 or size_want == 0:
        return 1.0 if size_want == 0 else 0.0
    got, want = got / size_got, want / size_want
    return float(np.dot(got, want) / np.sqrt(np.dot(got, got) * np.dot(want, want)))


def _excess(error: Array, want: Array, bound: Bound) -> float:
    allowed = bound.atol + bound.rtol * np.abs(want)
    with np.errstate(divide="ignore"):
        ratio = np.divide(error, allowed, out=np.zeros_like(error), where=error > 0)
    return float(ratio.max())


def judge(
    actual: Array,
    oracle: Array,
    dtype: str,
    bound: Bound,
    original: Array | None = None,
) -> Verdict:
    """Compare a result with the oracle, and prove on injected faults that the comparison can fail.

    `original` is what the implementation that is replaced gives for the same input in the same dtype; our
    error may then be no more than a small multiple of its error.
    """
    if np.shape(actual) != np.shape(oracle):
        return Verdict(Status.FAIL, f"shape is {np.shape(actual)}, not {np.shape(oracle)}")
    if np.size(oracle) == 0:
        return Verdict(Status.SKIPPED, "the result is empty")
    metrics = measure(actual, oracle, dtype, bound)
    other = measure(original, oracle, dtype, bound) if original is not None else None
    floor = _floor(oracle, dtype, bound)
    fault = _fault(metrics, other, floor, dtype)
    if fault:
        return Verdict(Status.FAIL, fault, metrics, other)
    caught = []
    for name, broken in faults(np.asarray(actual, dtype=np.float64), _largest(oracle) or 1.0):
        if not _fault(measure(broken, oracle, dtype, bound), other, floor, dtype):
            return Verdict(Status.BLIND, f"an injected fault ({name}) went unnoticed", metrics, other)
        caught.append(name)
    return Verdict(Status.PASS, "", metrics, other, tuple(caught))


def _floor(oracle: Array, dtype: str, bound: Bound) -> float:
    """An error that is no matter, whatever the original's: units in the last place of the largest element.

    Where the oracle is zero throughout (terms that cancel), the bound gives the scale.
    """
    largest = _largest(oracle)
    return UNITS[dtype] * float(ulp(np.asarray(largest), dtype)) if largest else ZERO_SHARE * bound.atol


def _largest(values: Array) -> float:
    finite = np.asarray(values, dtype=np.float64)[np.isfinite(values)]
    return float(np.abs(finite).max(initial=0.0))


def _fault(metrics: Metrics, original: Metrics | None, floor: float, dtype: str) -> str:
    """Why a result is not right; empty if it is."""
    if metrics.nonfinite:
        return f"{metrics.nonfinite} elements are NaN or infinite where the oracle is not, or the reverse"
    if metrics.excess > 1.0:
        return f"the largest error is {metrics.excess:.3g} times the tolerance of {dtype}"
    if original is None or original.nonfinite:
        return ""
    if metrics.max_abs > MAX_FACTOR * original.max_abs + floor:
        return f"the largest error is {metrics.max_abs:.3g}, that of the original {original.max_abs:.3g}"
    if metrics.rmse > RMSE_FACTOR * original.rmse + floor / 2:
        return f"the RMS error is {metrics.rmse:.3g}, that of the original {original.rmse:.3g}"
    return ""


# --- negative control: faults as real kernels have them ---------------------------------------------------


def _sign(values: Array, scale: float) -> Array:
    index = int(np.argmax(np.where(np.isfinite(values), np.abs(values), -1.0)))
    values.flat[index] = -values.flat[index]
    return values


def _offset(values: Array, scale: float) -> Array:
    values.flat[values.size // 2] += 0.1 * scale
    return values


def _scale(values: Array, scale: float) -> Array:
    return values * 1.1


def _tail(values: Array, scale: float) -> Array:
    """The last eighth was never written: what a wrong mask leaves."""
    flat = values.reshape(-1)
    flat[-max(1, flat.size // 8) :] = 0.0
    return flat.reshape(values.shape)


def _missing(values: Array, scale: float) -> Array:
    values.flat[0] = 0.0 if np.isnan(values.flat[0]) else np.nan
    return values


FAULTS: tuple[tuple[str, Callable[[Array, float], Array]], ...] = (
    ("one sign flipped", _sign),
    ("one element off by 10%", _offset),
    ("all elements 10% too large", _scale),
    ("last eighth missing", _tail),
    ("one NaN too many or too few", _missing),
)


def faults(values: Array, scale: float) -> Iterator[tuple[str, Array]]:
    """Damaged copies of a result (float64), each with the name of its damage.

    `scale` is the size of the largest element that there should be, or 1 if all should be zero.  A damage
    that is small against it (zeros that get another sign) is left out.
    """
    for name, damage in FAULTS:
        broken = damage(values.copy(), scale)
        with np.errstate(invalid="ignore"):
            moved = np.abs(broken - values)
        odd = np.isnan(broken) != np.isnan(values)
        if odd.any() or np.max(moved, initial=0.0, where=np.isfinite(moved)) > 0.05 * scale:
            yield name, broken
