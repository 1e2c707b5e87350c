"""Which type an operation computes in: Triton's rules for mixed operands and for Python numbers."""

from __future__ import annotations

import math

from portkit.errors import KernelError
from portkit.runtime.tile import ir

_FLOAT32_SMALLEST = 2.0**-126
_FLOAT32_LARGEST = (2 - 2.0**-23) * 2.0**127


def literal_type(value: int | float | bool) -> ir.DType:
    """The dtype of a Python number by itself: i1, the first of i32, u32, i64, u64 that holds it, f32, f64."""
    if isinstance(value, bool):
        return ir.I1
    if isinstance(value, float):
        plain = value == 0 or not math.isfinite(value) or _FLOAT32_SMALLEST <= abs(value) <= _FLOAT32_LARGEST
        return ir.F32 if plain else ir.F64
    for dtype in (ir.I32, ir.U32, ir.I64, ir.U64):
        if fits(value, dtype):
            return dtype
    raise KernelError(f"the integer {value} does not fit in 64 bits")


def limits(dtype: ir.DType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    if is_unsigned(dtype):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def fits(value: int, dtype: ir.DType) -> bool:
    """Whether an integer type holds a value."""
    low, high = limits(dtype)
    return low <= value <= high


def is_unsigned(dtype: ir.DType) -> bool:
    """Whether a type counts as unsigned in promotion (booleans do)."""
    return dtype.is_int and (dtype.kind == "uint" or dtype.is_bool)


def kind(dtype: ir.DType) -> int:
    """Booleans 0, integers 1, floats 2: a Python number of no higher kind takes the other operand's type."""
    if dtype.is_float:
        return 2
    return 0 if dtype.is_bool else 1


def promote_integers(a: ir.DType, b: ir.DType) -> ir.DType:
    """C's usual arithmetic conversions, without the step to int."""
    if is_unsigned(a) == is_unsigned(b):
        return a if a.bits > b.bits else b
    unsigned, signed = (a, b) if is_unsigned(a) else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed


def promote(
    a: ir.DType, b: ir.DType, *, a_weak: bool = False, b_weak: bool = False, division: bool = False
) -> ir.DType:
    """The dtype in which `a op b` is computed; `weak` marks a Python number.

    16-bit floats divide in f32.  f16 with bf16 gives f16, as in Triton.  Raises KernelError for a division of
    integers of different signedness.
    """
    if a_weak != b_weak:
        weak, strong = (a, b) if a_weak else (b, a)
        if kind(weak) <= kind(strong):
            return _divides(strong, division)
    for wide in (ir.F64, ir.F32):
        if wide in (a, b):
            return wide
    if ir.F16 in (a, b):
        return _divides(ir.F16, division)
    if a == b == ir.BF16:
        return _divides(ir.BF16, division)
    if ir.BF16 in (a, b):
        return ir.F32
    if a.is_float8 and b.is_float8:
        return a if a == b else ir.F16
    if a.is_float8 or b.is_float8:
        raise KernelError(
            f"{a} and {b} have no common type", remedy="Cast one of them, e.g. x.to(tl.float32)."
        )
    if division and is_unsigned(a) != is_unsigned(b):
        raise KernelError(
            f"Cannot use /, // or % with {a} and {b} because they have different signedness",
            remedy="Cast one of them, e.g. x.to(tl.int32).",
        )
    return promote_integers(a, b)


def _divides(dtype: ir.DType, division: bool) -> ir.DType:
    return ir.F32 if division and dtype in (ir.F16, ir.BF16) else dtype
