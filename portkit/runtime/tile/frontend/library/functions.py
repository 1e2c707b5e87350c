"""Functions of `libdevice` made of others: f32 is computed in f64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Operand, Semantics

Body: TypeAlias = Callable[..., ir.Value]
_HALVINGS = 3  # of the angle, before the series of atan
_TERMS = 9


def _op(sem: Semantics, name: str, x: ir.Value) -> ir.Value:
    return sem.builder.value(name, [x], x.type)


def _wide(name: str, body: Body, sem: Semantics, *args: Operand, **named: Operand) -> ir.Value:
    """Compute in f64; the result has the operands' common type."""
    values = [*args, *named.values()]
    first = sem.value(values[0])
    if len(values) == 2:
        first, second = sem.unify(values[0], values[1])
        operands = [first, second]
    else:
        operands = [first]
    dtype = first.type.dtype
    if first.type.is_pointer or not dtype.is_float:
        raise KernelError(
            f"{name} needs floats, not {first.type.element}", remedy="Cast first: x.to(tl.float32)."
        )
    result = body(sem, *(sem.cast(v, ir.F64) for v in operands))
    return sem.cast(result, dtype)


def _atan(sem: Semantics, x: ir.Value) -> ir.Value:
    """Reciprocal above 1, the angle halved, then the odd series."""
    size = _op(sem, "abs", x)
    large = sem.compare(">", size, 1.0)
    t = sem.select(large, sem.true_divide(1.0, size), size)
    for _ in range(_HALVINGS):
        root = _op(sem, "sqrt", sem.binary("+", sem.binary("*", t, t), 1.0))
        t = sem.true_divide(t, sem.binary("+", root, 1.0))
    square = sem.binary("*", t, t)
    total = sem.value(1.0 / (2 * _TERMS + 1) * (-1) ** _TERMS)
    for index in range(_TERMS - 1, -1, -1):
        total = sem.binary("+", sem.binary("*", square, total), (-1) ** index / (2 * index + 1))
    angle = sem.binary("*", sem.binary("*", t, total), float(2**_HALVINGS))
    angle = sem.select(large, sem.binary("-", math.pi / 2, angle), angle)
    angle = sem.select(sem.compare("<", x, 0.0), sem.negate(angle), angle)
    return sem.select(sem.compare("==", x, 0.0), x, angle)  # keeps the sign of 0


def _asin(sem: Semantics, x: ir.Value) -> ir.Value:
    rest = sem.binary("*", sem.binary("-", 1.0, x), sem.binary("+", x, 1.0))
    return _atan(sem, sem.true_divide(x, _op(sem, "sqrt", rest)))


def _acos(sem: Semantics, x: ir.Value) -> ir.Value:
    ratio = sem.true_divide(sem.binary("-", 1.0, x), sem.binary("+", x, 1.0))
    return sem.binary("*", _atan(sem, _op(sem, "sqrt", ratio)), 2.0)


def _atan2(sem: Semantics, y: ir.Value, x: ir.Value) -> ir.Value:
    angle = _atan(sem, sem.true_divide(y, x))
    turn = sem.select(sem.compare("<", y, 0.0), -math.pi, math.pi)
    angle = sem.select(sem.compare("<", x, 0.0), sem.binary("+", angle, turn), angle)
    still = sem.binary("&", sem.compare("==", x, 0.0), sem.compare("==", y, 0.0))
    return sem.select(still, 0.0, angle)


def _tan(sem: Semantics, x: ir.Value) -> ir.Value:
    return sem.true_divide(_op(sem, "sin", x), _op(sem, "cos", x))


def _log1p(sem: Semantics, x: ir.Value) -> ir.Value:
    """The logarithm of 1 + x, with what the sum rounds off put back."""
    total = sem.binary("+", x, 1.0)
    lost = sem.binary("-", x, sem.binary("-", total, 1.0))
    log = sem.binary("+", _op(sem, "log", total), sem.true_divide(lost, total))
    plain = sem.compare("<", _op(sem, "abs", total), float("inf"))
    return sem.select(plain, sem.select(sem.compare("==", total, 0.0), float("-inf"), log), total)


def _expm1(sem: Semantics, x: ir.Value) -> ir.Value:
    """Near 0 a series; elsewhere the difference loses too little to matter in f32."""
    series = sem.value(1.0 / math.factorial(8))
    for index in range(7, 0, -1):
        series = sem.binary("+", sem.binary("*", series, x), 1.0 / math.factorial(index))
    near = sem.compare("<", _op(sem, "abs", x), 0.0625)
    return sem.select(near, sem.binary("*", series, x), sem.binary("-", _op(sem, "exp", x), 1.0))


def _sinh(sem: Semantics, x: ir.Value) -> ir.Value:
    rise = _expm1(sem, x)
    return sem.binary("*", sem.binary("+", rise, sem.true_divide(rise, sem.binary("+", rise, 1.0))), 0.5)


def _cosh(sem: Semantics, x: ir.Value) -> ir.Value:
    return sem.binary("*", sem.binary("+", _op(sem, "exp", x), _op(sem, "exp", sem.negate(x))), 0.5)


def _pow(sem: Semantics, x: ir.Value, y: ir.Value) -> ir.Value:
    size = _op(sem, "exp2", sem.binary("*", y, _op(sem, "log2", _op(sem, "abs", x))))
    whole = sem.compare("==", _op(sem, "floor", y), y)
    half = sem.binary("*", y, 0.5)
    odd = sem.binary("&", whole, sem.compare("!=", _op(sem, "floor", half), half))
    signed = sem.select(odd, sem.negate(size), size)
    negative = sem.select(whole, signed, float("nan"))
    result = sem.select(sem.compare("<", x, 0.0), negative, size)
    one = sem.binary("|", sem.compare("==", y, 0.0), sem.compare("==", x, 1.0))
    return sem.select(one, 1.0, result)


def _round(sem: Semantics, x: ir.Value) -> ir.Value:
    """To the nearest integer, halves away from zero."""
    size = _op(sem, "floor", sem.binary("+", _op(sem, "abs", x), 0.5))
    return sem.select(sem.compare("<", x, 0.0), sem.negate(size), size)


_BODIES: dict[str, Body] = {
    "acos": _acos,
    "asin": _asin,
    "atan": _atan,
    "atan2": _atan2,
    "cosh": _cosh,
    "expm1": _expm1,
    "log1p": _log1p,
    "pow": _pow,
    "round": _round,
    "sinh": _sinh,
    "tan": _tan,
}
TABLE: dict[str, Callable[..., Any]] = {name: partial(_wide, name, body) for name, body in _BODIES.items()}
