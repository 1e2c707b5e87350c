"""Reductions and matrix products."""

from __future__ import annotations

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import promotion
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe


def _reduce(sem: Semantics, kind: str, value: ir.Value, axis: object, keep_dims: bool) -> ir.Value:
    """One reduction; without an axis over all elements, as if they were one row."""
    if not isinstance(value, ir.Value) or value.type.is_pointer or not value.type.is_tile:
        raise KernelError(
            f"tl.{kind} needs a tile of numbers, not {describe(value)}",
            remedy="A scalar needs no reduction.",
        )
    shape = value.type.shape
    if axis is None:
        if len(shape) > 1:
            value = sem.builder.value("reshape", [value], value.type.with_shape((value.type.numel,)))
        result = _emit(sem, kind, value, 0)
        return sem.broadcast(result, (1,) * len(shape)) if keep_dims else result
    number = constant(axis)
    if not isinstance(number, int) or not -len(shape) <= number < len(shape):
        raise KernelError(f"axis {describe(axis)} is out of range for a tile of shape {list(shape)}")
    number %= len(shape)
    result = _emit(sem, kind, value, number)
    return sem.expand(result, number) if keep_dims else result


def _emit(sem: Semantics, kind: str, value: ir.Value, axis: int) -> ir.Value:
    shape = tuple(size for index, size in enumerate(value.type.shape) if index != axis)
    element = ir.I32 if kind in ("argmax", "argmin") else value.type.element
    return sem.builder.value("reduce", [value], ir.Type(element, shape), kind=kind, axis=axis)


def sum(
    sem: Semantics,
    input: ir.Value,
    axis: int | None = None,
    keep_dims: bool = False,
    dtype: ir.DType | None = None,
) -> ir.Value:
    """Sum; small integers in 32 bits of their signedness (booleans count as unsigned)."""
    if dtype is None and isinstance(input, ir.Value) and not input.type.is_pointer:
        own = input.type.dtype
        if own.is_int and own.bits < 32:
            dtype = ir.U32 if promotion.is_unsigned(own) else ir.I32
    if dtype is not None and isinstance(input, ir.Value):
        input = sem.cast(input, dtype)
    return _reduce(sem, "sum", input, axis, keep_dims)


def _extreme(
    sem: Semantics, kind: str, value: ir.Value, axis: int | None, indices: bool, keep_dims: bool
) -> ir.Value | tuple[ir.Value, ...]:
    if isinstance(value, ir.Value) and not value.type.is_pointer:
        own = value.type.dtype
        if own == ir.BF16 or (own.is_float and own.bits < 32 and not indices):
            value = sem.cast(value, ir.F32)
        elif own.is_int and own.bits < 32 and not indices:
            value = sem.cast(value, ir.I32)
    best = _reduce(sem, kind, value, axis, keep_dims)
    if not indices:
        return best
    return best, _reduce(sem, f"arg{kind}", value, axis, keep_dims)


def max(
    sem: Semantics,
    input: ir.Value,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> ir.Value | tuple[ir.Value, ...]:
    """Largest element."""
    return _extreme(sem, "max", input, axis, return_indices, keep_dims)


def min(
    sem: Semantics,
    input: ir.Value,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> ir.Value | tuple[ir.Value, ...]:
    """Smallest element."""
    return _extreme(sem, "min", input, axis, return_indices, keep_dims)


def argmax(
    sem: Semantics, input: ir.Value, axis: int, tie_break_left: bool = True, keep_dims: bool = False
) -> ir.Value:
    """Index of the largest element."""
    return _reduce(sem, "argmax", input, axis, keep_dims)


def argmin(
    sem: Semantics, input: ir.Value, axis: int, tie_break_left: bool = True, keep_dims: bool = False
) -> ir.Value:
    """Index of the smallest element."""
    return _reduce(sem, "argmin", input, axis, keep_dims)


def reduce_or(sem: Semantics, input: ir.Value, axis: int | None = None, keep_dims: bool = False) -> ir.Value:
    """Bitwise or."""
    return _reduce(sem, "any", input, axis, keep_dims)


def dot(
    sem: Semantics,
    input: ir.Value,
    other: ir.Value,
    acc: ir.Value | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: ir.DType = ir.F32,
) -> ir.Value:
    """Matrix product."""
    for side in (input, other):
        if not isinstance(side, ir.Value) or side.type.is_pointer or len(side.type.shape) not in (2, 3):
            raise KernelError(f"tl.dot needs two matrices, or two rows of them, not {describe(side)}")
    (*batch, m, k), (*batch2, k2, n) = input.type.shape, other.type.shape
    if batch != batch2:
        raise KernelError(f"tl.dot of {describe(input)} and {describe(other)}: the first axes differ")
    if k != k2:
        raise KernelError(f"tl.dot of shapes {[m, k]} and {[k2, n]}: the inner sizes differ")
    if input.type.dtype.is_float8 and other.type.dtype.is_float8:
        input, other = sem.cast(input, ir.F16), sem.cast(other, ir.F16)  # which has all of their numbers
    left, right = input.type.dtype, other.type.dtype
    if left != right:
        raise KernelError(
            f"tl.dot of {left} and {right}: both must have one dtype",
            remedy=f"Cast one: x.to(tl.{_long(left)}).",
        )
    wide = ir.F64 if left == ir.F64 else ir.F32
    result = ir.I32 if left.is_int else (out_dtype if out_dtype == ir.F16 and left == ir.F16 else wide)
    kind = ir.Type(result, (*batch, m, n))
    start = sem.const(0, result, kind.shape) if acc is None else sem.value(acc)
    if start.type != kind:
        raise KernelError(
            f"the accumulator of tl.dot is {start.type}, the product is {kind}",
            remedy="Make it with tl.zeros((M, N), dtype=tl.float32).",
        )
    return sem.builder.value(
        "dot", [input, other, start], start.type, precision=_precision(input_precision, allow_tf32)
    )


def _long(dtype: ir.DType) -> str:
    return {"float": f"float{dtype.bits}", "bfloat": "bfloat16"}.get(dtype.kind, f"{dtype.kind}{dtype.bits}")


def _precision(input_precision: str | None, allow_tf32: bool | None) -> str:
    if input_precision is None:
        return "ieee" if allow_tf32 is False else "tf32"
    if input_precision in ("ieee", "tf32"):
        return input_precision
    if input_precision in ("tf32x3", "bf16x3", "bf16x6"):
        return "ieee"  # at least as precise as what was asked for
    raise KernelError(f"tl.dot has no input_precision {input_precision!r}", remedy='Use "ieee" or "tf32".')
