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
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    mul_rn,
    rint,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    tanh,
    trunc,
)

fast_tanhf = tanh
fast_expf = exp
fast_logf = log
fast_sinf = sin
fast_cosf = cos
finitef = isfinite
isfinited = isfinite
nearbyint = rint
fast_dividef = div_rn

__all__ = [
    "abs",
    "ceil",
    "cos",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "fast_cosf",
    "fast_dividef",
    "fast_expf",
    "fast_logf",
    "fast_sinf",
    "fast_tanhf",
    "finitef",
    "floor",
    "fma",
    "isfinite",
    "isfinited",
    "isinf",
    "isnan",
    "log",
    "log2",
    "mul_rn",
    "nearbyint",
    "rint",
    "rsqrt",
    "sin",
    "sqrt",
    "sqrt_rn",
    "tanh",
    "trunc",
]
