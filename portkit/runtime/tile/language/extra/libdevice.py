"""The functions of `libdevice` that the tile language has."""

from __future__ import annotations

from portkit.runtime.tile.language.math import (
    abs,
    acos,
    asin,
    atan,
    atan2,
    ceil,
    cos,
    cosh,
    div_rn,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    fma,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    mul_rn,
    pow,
    rint,
    round,
    rsqrt,
    sin,
    sinh,
    sqrt,
    sqrt_rn,
    tan,
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
fast_powf = pow

__all__ = [
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "ceil",
    "cos",
    "cosh",
    "div_rn",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "fast_cosf",
    "fast_dividef",
    "fast_expf",
    "fast_logf",
    "fast_powf",
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
    "log1p",
    "log2",
    "mul_rn",
    "nearbyint",
    "pow",
    "rint",
    "round",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "sqrt_rn",
    "tan",
    "tanh",
    "trunc",
]
