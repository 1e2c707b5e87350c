"""Special functions and functions of bits: f32 is computed in f64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.library.functions import _log1p, _op, _wide
from portkit.runtime.tile.frontend.library.math import _unary
from portkit.runtime.tile.frontend.semantics import Operand, Semantics

_SPLIT = 2.25  # below it the series of erf, from it on the continued fraction of erfc
_SERIES_TERMS = 36
_FRACTION_TERMS = 48
_STEPS = 8  # lgamma is moved up to where Stirling's series is exact
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
# erf's inverse, from the logarithm of 1 - x²: Giles, "Approximating the erfinv function", single precision
_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def _polynomial(sem: Semantics, x: ir.Value, factors: tuple[float, ...]) -> ir.Value:
    """By Horner's rule, the highest power first."""
    total = sem.const(factors[0], ir.F64, x.type.shape)
    for factor in factors[1:]:
        total = sem.binary("+", sem.binary("*", total, x), factor)
    return total


def _series(sem: Semantics, x: ir.Value) -> ir.Value:
    """erf by its Taylor series, near 0."""
    square = sem.binary("*", x, x)
    factors = [(-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(_SERIES_TERMS, -1, -1)]
    return sem.binary(
        "*", sem.binary("*", x, 2 / math.sqrt(math.pi)), _polynomial(sem, square, tuple(factors))
    )


def _fraction(sem: Semantics, x: ir.Value) -> ir.Value:
    """exp(x²) erfc(x) by its continued fraction, for x of at least `_SPLIT`."""
    total = x
    for n in range(_FRACTION_TERMS, 0, -1):
        total = sem.binary("+", x, sem.true_divide(n / 2, total))
    return sem.true_divide(1 / math.sqrt(math.pi), total)


def _parts(sem: Semantics, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """Whether |x| is large; erf of x where it is not; |x| where it is; exp(x²) erfc(|x|) there."""
    size = _op(sem, "abs", x)
    large = sem.compare(">=", size, _SPLIT)
    near = _series(sem, sem.select(large, 0.0, x))
    far = sem.select(large, size, 4.0)
    return large, near, far, _fraction(sem, far)


def _decay(sem: Semantics, x: ir.Value) -> ir.Value:
    return _op(sem, "exp", sem.negate(sem.binary("*", x, x)))


def _erf(sem: Semantics, x: ir.Value) -> ir.Value:
    large, near, far, scaled = _parts(sem, x)
    rest = sem.binary("-", 1.0, sem.binary("*", scaled, _decay(sem, far)))
    signed = sem.select(sem.compare("<", x, 0.0), sem.negate(rest), rest)
    return sem.select(large, signed, sem.binary("+", near, sem.binary("*", x, 0.0)))  # NaN stays NaN


def _erfc(sem: Semantics, x: ir.Value) -> ir.Value:
    large, near, far, scaled = _parts(sem, x)
    rest = sem.binary("*", scaled, _decay(sem, far))
    both = sem.select(sem.compare("<", x, 0.0), sem.binary("-", 2.0, rest), rest)
    return sem.select(large, both, sem.binary("-", 1.0, near))


def _erfcx(sem: Semantics, x: ir.Value) -> ir.Value:
    large, near, _, scaled = _parts(sem, x)
    rise = _op(sem, "exp", sem.binary("*", x, x))
    left = sem.binary("-", sem.binary("*", rise, 2.0), scaled)
    both = sem.select(sem.compare("<", x, 0.0), left, scaled)
    return sem.select(large, both, sem.binary("*", rise, sem.binary("-", 1.0, near)))


def _erfinv(sem: Semantics, x: ir.Value) -> ir.Value:
    """A polynomial, then two steps of Newton on erf (erfc where x is near 1)."""
    inside = sem.binary("*", sem.binary("-", 1.0, x), sem.binary("+", x, 1.0))
    w = sem.negate(_op(sem, "log", inside))
    centre = _polynomial(sem, sem.binary("-", w, 2.5), _CENTRE)
    tail = _polynomial(sem, sem.binary("-", _op(sem, "sqrt", w), 3.0), _TAIL)
    y = sem.binary("*", sem.select(sem.compare("<", w, 5.0), centre, tail), x)
    size = _op(sem, "abs", x)
    y = _op(sem, "abs", y)
    for _ in range(2):
        error = sem.binary("-", sem.binary("-", 1.0, size), _erfc(sem, y))
        slope = sem.binary("*", _decay(sem, y), 2 / math.sqrt(math.pi))
        y = sem.binary("-", y, sem.true_divide(error, slope))
    y = sem.select(sem.compare("<", x, 0.0), sem.negate(y), y)
    y = sem.select(sem.compare("==", size, 1.0), sem.binary("*", x, float("inf")), y)
    return sem.select(sem.compare("==", x, 0.0), x, y)


def _lgamma(sem: Semantics, x: ir.Value) -> ir.Value:
    """Stirling's series at x + 8; below 1/2 by reflection."""
    low = sem.compare("<", x, 0.5)
    at = sem.select(low, sem.binary("-", 1.0, x), x)
    product, moved = at, at
    for step in range(1, _STEPS):
        product = sem.binary("*", product, sem.binary("+", at, float(step)))
    moved = sem.binary("+", at, float(_STEPS))
    inverse = sem.true_divide(1.0, moved)
    series = sem.binary("*", _polynomial(sem, sem.binary("*", inverse, inverse), _STIRLING[::-1]), inverse)
    main = sem.binary("*", sem.binary("-", moved, 0.5), _op(sem, "log", moved))
    main = sem.binary("+", sem.binary("-", main, moved), 0.5 * math.log(2 * math.pi))
    up = sem.binary("-", sem.binary("+", main, series), _op(sem, "log", product))
    part = sem.binary("-", x, _op(sem, "floor", x))
    sine = _op(sem, "sin", sem.binary("*", part, math.pi))
    mirrored = sem.binary("-", sem.binary("-", math.log(math.pi), _op(sem, "log", sine)), up)
    pole = sem.binary("&", low, sem.compare("==", part, 0.0))
    result = sem.select(low, mirrored, up)
    infinite = sem.binary("|", pole, sem.compare("==", _op(sem, "abs", x), float("inf")))
    return sem.select(infinite, float("inf"), result)


def _asinh(sem: Semantics, x: ir.Value) -> ir.Value:
    size = _op(sem, "abs", x)
    square = sem.binary("*", size, size)
    root = _op(sem, "sqrt", sem.binary("+", square, 1.0))
    grown = _log1p(sem, sem.binary("+", size, sem.true_divide(square, sem.binary("+", root, 1.0))))
    large = sem.compare(">", size, 1e100)
    far = sem.binary("+", _op(sem, "log", size), math.log(2))
    grown = sem.select(large, far, grown)
    signed = sem.select(sem.compare("<", x, 0.0), sem.negate(grown), grown)
    return sem.select(sem.compare("==", x, 0.0), x, signed)


def _acosh(sem: Semantics, x: ir.Value) -> ir.Value:
    more = sem.binary("-", x, 1.0)
    root = _op(sem, "sqrt", sem.binary("*", more, sem.binary("+", x, 1.0)))
    far = sem.binary("+", _op(sem, "log", x), math.log(2))
    return sem.select(sem.compare(">", x, 1e100), far, _log1p(sem, sem.binary("+", more, root)))


def _atanh(sem: Semantics, x: ir.Value) -> ir.Value:
    size = _op(sem, "abs", x)
    ratio = sem.true_divide(sem.binary("*", size, 2.0), sem.binary("-", 1.0, size))
    grown = sem.binary("*", _log1p(sem, ratio), 0.5)
    signed = sem.select(sem.compare("<", x, 0.0), sem.negate(grown), grown)
    return sem.select(sem.compare("==", x, 0.0), x, signed)


def _hypot(sem: Semantics, x: ir.Value, y: ir.Value) -> ir.Value:
    return _op(sem, "sqrt", sem.binary("+", sem.binary("*", x, x), sem.binary("*", y, y)))


def _log10(sem: Semantics, x: ir.Value) -> ir.Value:
    return sem.binary("*", _op(sem, "log", x), 1 / math.log(10))


def _exp10(sem: Semantics, x: ir.Value) -> ir.Value:
    return _op(sem, "exp2", sem.binary("*", x, math.log2(10)))


_BODIES: dict[str, Callable[..., ir.Value]] = {
    "acosh": _acosh,
    "asinh": _asinh,
    "atanh": _atanh,
    "erfc": _erfc,
    "erfcx": _erfcx,
    "erfinv": _erfinv,
    "exp10": _exp10,
    "hypot": _hypot,
    "lgamma": _lgamma,
    "log10": _log10,
}
TABLE: dict[str, Callable[..., Any]] = {name: partial(_wide, name, body) for name, body in _BODIES.items()}


def _erf_of_any(sem: Semantics, x: Operand) -> ir.Value:
    """erf: of f64 made of others, of narrower floats an operation."""
    value = sem.value(x)
    if not value.type.is_pointer and value.type.element == ir.F64:
        return _erf(sem, value)
    return _unary("erf", sem, value)


TABLE["erf"] = _erf_of_any


def fmod(sem: Semantics, x: Operand, y: Operand) -> ir.Value:
    """The remainder with the sign of x."""
    return sem.remainder(x, y)


def _bits(sem: Semantics, value: ir.Value) -> ir.Value:
    kind = ir.DType("int", value.type.dtype.bits)
    return sem.builder.value("bitcast", [value], value.type.with_element(kind))


def _floats(sem: Semantics, name: str, *operands: Operand) -> list[ir.Value]:
    values = list(sem.unify(*operands)) if len(operands) == 2 else [sem.value(operands[0])]
    if values[0].type.is_pointer or not values[0].type.dtype.is_float:
        raise KernelError(f"{name} needs floats, not {values[0].type.element}")
    return values


def signbit(sem: Semantics, x: Operand) -> ir.Value:
    """1 where the sign is minus, also of 0 and NaN."""
    return sem.cast(sem.compare("<", _bits(sem, _floats(sem, "signbit", x)[0]), 0), ir.I32)


def copysign(sem: Semantics, x: Operand, y: Operand) -> ir.Value:
    """The size of x with the sign of y."""
    size, sign = _floats(sem, "copysign", x, y)
    top = -(2 ** (size.type.dtype.bits - 1))
    mixed = sem.binary("|", sem.binary("&", _bits(sem, size), ~top), sem.binary("&", _bits(sem, sign), top))
    return sem.builder.value("bitcast", [mixed], size.type)


def nextafter(sem: Semantics, x: Operand, y: Operand) -> ir.Value:
    """The number beside x in the direction of y."""
    start, goal = _floats(sem, "nextafter", x, y)
    bits = _bits(sem, start)
    grows = sem.compare("==", sem.compare(">", goal, start), sem.compare(">", start, 0.0))
    moved = sem.select(grows, sem.binary("+", bits, 1), sem.binary("-", bits, 1))
    top = -(2 ** (start.type.dtype.bits - 1))
    least = sem.select(sem.compare(">", goal, 0.0), 1, top + 1)
    moved = sem.select(sem.compare("==", start, 0.0), sem.cast(least, bits.type.element), moved)
    result = sem.builder.value("bitcast", [moved], start.type)
    result = sem.select(sem.compare("==", start, goal), goal, result)
    unknown = sem.binary("|", sem.compare("!=", start, start), sem.compare("!=", goal, goal))
    return sem.select(unknown, float("nan"), result)


def _whole(sem: Semantics, name: str, x: Operand) -> ir.Value:
    value = sem.value(x)
    if value.type.is_pointer or not value.type.dtype.is_int or value.type.dtype.bits not in (32, 64):
        raise KernelError(f"{name} needs 32- or 64-bit integers, not {value.type.element}")
    return sem.cast(value, ir.DType("uint", value.type.dtype.bits))


def popc(sem: Semantics, x: Operand) -> ir.Value:
    """How many bits are set."""
    value = _whole(sem, "popc", x)
    bits, dtype = value.type.dtype.bits, value.type.dtype
    for width in (1, 2, 4, 8, 16, 32):
        if width < bits:
            mask = sum(((1 << width) - 1) << place for place in range(0, bits, 2 * width))
            pair = [
                sem.binary("&", v, sem.const(mask, dtype)) for v in (value, sem.binary(">>", value, width))
            ]
            value = sem.binary("+", pair[0], pair[1])
    return sem.cast(value, ir.I32)


def clz(sem: Semantics, x: Operand) -> ir.Value:
    """How many zeros are in front of the first bit that is set."""
    value = _whole(sem, "clz", x)
    width = 1
    while width < value.type.dtype.bits:
        value = sem.binary("|", value, sem.binary(">>", value, width))
        width *= 2
    return popc(sem, sem.invert(value))


def ffs(sem: Semantics, x: Operand) -> ir.Value:
    """The place of the lowest bit that is set, from 1; 0 if none is."""
    value = _whole(sem, "ffs", x)
    below = sem.binary("^", value, sem.binary("-", value, 1))
    return sem.select(sem.compare("==", value, 0), 0, popc(sem, below))
