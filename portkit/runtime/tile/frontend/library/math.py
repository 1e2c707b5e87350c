"""Element-wise arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Operand, Semantics, constant, is_number
from portkit.runtime.tile.language._base import PropagateNan

_FLOAT_OPS = [
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "floor",
    "ceil",
]  # one IR operation each


def _unary(opcode: str, sem: Semantics, x: Operand) -> ir.Value:
    value = sem.value(x)
    if value.type.is_pointer or not value.type.dtype.is_float:
        raise KernelError(
            f"tl.{opcode} needs floats, not {value.type.element}", remedy="Cast first: x.to(tl.float32)."
        )
    if value.type.dtype.is_float8:
        value = sem.cast(value, ir.F32)
    return sem.builder.value(opcode, [value], value.type)


TABLE: dict[str, Callable[..., Any]] = {name: partial(_unary, name) for name in ir.FLOAT_OPS if name != "erf"}
TABLE["sqrt_rn"] = partial(_unary, "sqrt")


def abs(sem: Semantics, x: Operand) -> ir.Value:
    """Absolute value; unsigned integers and booleans are their own."""
    value = sem.value(x)
    if value.type.is_pointer:
        raise KernelError("tl.abs needs numbers, not pointers")
    dtype = value.type.dtype
    if dtype.kind == "uint" or dtype.is_bool:
        return value
    if dtype.is_float8:
        wide = sem.builder.value("abs", [sem.cast(value, ir.F32)], value.type.with_element(ir.F32))
        return sem.cast(wide, dtype)
    return sem.builder.value("abs", [value], value.type)


def fma(sem: Semantics, x: Operand, y: Operand, z: Operand) -> ir.Value:
    """x · y + z; integers multiply and add."""
    a, b = sem.unify(x, y)
    a, c = sem.unify(a, z)
    b = sem.cast(b, a.type.element)
    a, b, c = sem.same_shape(a, b, c)
    if a.type.dtype.is_int:
        return sem.binary("+", sem.binary("*", a, b), c)
    return sem.builder.value("fma", [a, b, c], a.type)


def fdiv(sem: Semantics, x: Operand, y: Operand, ieee_rounding: bool = False) -> ir.Value:
    """Floating-point division."""
    return sem.true_divide(x, y)


def div_rn(sem: Semantics, x: Operand, y: Operand) -> ir.Value:
    """Floating-point division."""
    return sem.true_divide(x, y)


def mul_rn(sem: Semantics, x: Operand, y: Operand) -> ir.Value:
    """Product."""
    return sem.binary("*", x, y)


def isnan(sem: Semantics, x: Operand) -> ir.Value:
    """Not equal to itself."""
    return sem.compare("!=", x, x)


def isinf(sem: Semantics, x: Operand) -> ir.Value:
    """Plus or minus infinity."""
    return sem.compare("==", abs(sem, x), float("inf"))


def isfinite(sem: Semantics, x: Operand) -> ir.Value:
    """Below infinity, which NaN is not."""
    return sem.compare("<", abs(sem, x), float("inf"))


def trunc(sem: Semantics, x: Operand) -> ir.Value:
    """Towards zero, keeping the sign of zero."""
    up, down = _unary("ceil", sem, x), _unary("floor", sem, x)
    return sem.select(sem.compare("<", x, 0.0), up, down)


def rint(sem: Semantics, x: Operand) -> ir.Value:
    """The nearer of the integers around x; of two that are equally near, the even one."""
    down = _unary("floor", sem, x)
    rest = sem.binary("-", x, down)
    half = _unary("floor", sem, sem.binary("*", down, 0.5))
    odd = sem.compare("!=", sem.binary("*", half, 2.0), down)
    up = sem.binary("|", sem.compare(">", rest, 0.5), sem.binary("&", sem.compare("==", rest, 0.5), odd))
    return sem.select(up, sem.binary("+", down, 1.0), down)


def swizzle2d(
    sem: Semantics, i: Operand, j: Operand, size_i: Operand, size_j: Operand, size_g: Operand
) -> tuple[ir.Value, ir.Value]:
    """Row-major (i, j) → (i, j) in the order of groups of rows."""
    index = sem.binary("+", sem.binary("*", i, size_j), j)
    in_group = sem.binary("*", size_g, size_j)
    first = sem.binary("*", sem.floor_divide(index, in_group), size_g)
    rows = _extreme(sem, "min", sem.binary("-", size_i, first), size_g, PropagateNan.NONE)
    place = sem.remainder(index, in_group)
    return sem.binary("+", first, sem.remainder(place, rows)), sem.floor_divide(place, rows)


def _promoted(sem: Semantics, x: Operand) -> ir.Value:
    value = sem.value(x)
    narrow = value.type.element == ir.BF16 or (not value.type.is_pointer and value.type.dtype.is_float8)
    return sem.cast(value, ir.F32) if narrow else value


def _extreme(sem: Semantics, opcode: str, x: Operand, y: Operand, propagate_nan: str) -> ir.Value:
    a, b = sem.unify(_promoted(sem, x), _promoted(sem, y))
    result = sem.builder.value(opcode, [a, b], a.type)
    name = str(getattr(propagate_nan, "name", propagate_nan)).lower()
    if name != PropagateNan.ALL or not a.type.dtype.is_float:
        return result
    either = sem.binary("|", sem.compare("!=", a, a), sem.compare("!=", b, b))
    return sem.select(either, sem.const(float("nan"), a.type.dtype), result)


def minimum(sem: Semantics, x: Operand, y: Operand, propagate_nan: str = PropagateNan.NONE) -> ir.Value:
    """Smaller of two."""
    return _extreme(sem, "min", x, y, propagate_nan)


def maximum(sem: Semantics, x: Operand, y: Operand, propagate_nan: str = PropagateNan.NONE) -> ir.Value:
    """Larger of two."""
    return _extreme(sem, "max", x, y, propagate_nan)


def clamp(
    sem: Semantics, x: Operand, min: Operand, max: Operand, propagate_nan: str = PropagateNan.NONE
) -> ir.Value:
    """x limited to [min, max]."""
    low = _extreme(sem, "max", x, min, propagate_nan)
    return _extreme(sem, "min", low, max, propagate_nan)


def cdiv(sem: Semantics, x: Operand, div: Operand) -> Operand:
    """x / div rounded up; constants give a constant."""
    if is_number(x) and is_number(div):
        return -(-constant(x) // constant(div))  # type: ignore[no-any-return]
    return sem.floor_divide(sem.binary("-", sem.binary("+", x, div), 1), div)


def softmax(
    sem: Semantics, x: ir.Value, dim: int | None = None, keep_dims: bool = False, ieee_rounding: bool = False
) -> ir.Value:
    """Softmax along an axis."""
    from portkit.runtime.tile.frontend.library import reduce

    axis = 0 if dim is None else dim
    top = reduce.max(sem, x, axis, keep_dims=True)
    assert isinstance(top, ir.Value)
    power = _unary("exp", sem, sem.binary("-", x, top))
    return sem.true_divide(power, reduce.sum(sem, power, axis, keep_dims=True))
