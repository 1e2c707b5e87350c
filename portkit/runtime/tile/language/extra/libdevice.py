"""The functions of `libdevice` that the tile language has."""

from __future__ import annotations

from portkit.runtime.tile.language.math import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    tanh,
)

fast_tanhf = tanh
fast_expf = exp
fast_logf = log

__all__ = [
    "abs",
    "ceil",
    "cos",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "fast_expf",
    "fast_logf",
    "fast_tanhf",
    "floor",
    "fma",
    "log",
    "log2",
    "rsqrt",
    "sin",
    "sqrt",
    "sqrt_rn",
    "tanh",
]
