"""What each operation on values computes, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from portkit.runtime.tile import ir

Array: TypeAlias = npt.NDArray[Any]
Compute: TypeAlias = Callable[[ir.Op, list[Array]], Array]

_NUMPY: dict[ir.DType, Any] = {
    ir.I1: np.bool_,
    ir.I8: np.int8,
    ir.I16: np.int16,
    ir.I32: np.int32,
    ir.I64: np.int64,
    ir.U8: np.uint8,
    ir.U16: np.uint16,
    ir.U32: np.uint32,
    ir.U64: np.uint64,
    ir.F16: np.float16,
    ir.F32: np.float32,
    ir.F64: np.float64,
    ir.BF16: np.float32,
    **dict.fromkeys((ir.F8E5, ir.F8E4NV, ir.F8E4B15, ir.F8E4B8, ir.F8E5B16), np.float32),
}


def numpy_dtype(dtype: ir.DType, *, stored: bool = False) -> Any:
    """The NumPy dtype that holds values of an IR dtype; `stored`: as they lie in memory."""
    if stored and dtype == ir.BF16:
        return np.dtype(np.uint16)
    if stored and (dtype.is_bool or dtype.is_float8):
        return np.dtype(np.uint8)
    return np.dtype(_NUMPY[dtype])


# --- bf16 ------------------------------------------------------------------------------------------


def narrow_bf16(value: Array) -> Array:
    """f32 → the 16 bits of the nearest bf16, ties to even; NaN stays NaN."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(value), np.uint16(0x7FC0), rounded)


def widen_bf16(bits: Array) -> Array:
    """The 16 bits of bf16 → f32."""
    wide: Array = (np.asarray(bits, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


@lru_cache(maxsize=8)
def _float8_numbers(dtype: ir.DType) -> Array:
    """The f32 that each of the 256 bit patterns of an 8-bit float stands for."""
    mantissa, bias, largest, nan = ir.FP8[dtype.kind]
    bits = np.arange(256)
    exponent, rest = (bits & 0x7F) >> mantissa, (bits & ((1 << mantissa) - 1)) / (1 << mantissa)
    size = np.where(exponent > 0, (1 + rest) * 2.0 ** (exponent - bias), rest * 2.0 ** (1 - bias))
    if nan == 0x80:
        size[0x80] = np.nan
    elif nan is not None:
        size[bits & 0x7F > largest] = np.nan
    if dtype == ir.F8E5:
        size[[largest + 1, largest + 0x81]] = np.inf
    return np.where(bits >= 0x80, -size, size).astype(np.float32)


def widen_float8(bits: Array, dtype: ir.DType) -> Array:
    """8-bit floats → f32."""
    return np.asarray(_float8_numbers(dtype)[np.asarray(bits, np.uint8)])


def narrow_float8(value: Array, dtype: ir.DType) -> Array:
    """f32 → the bits of the nearest 8-bit float, ties to even; the largest one beyond it; NaN stays NaN."""
    _, _, largest, nan = ir.FP8[dtype.kind]
    numbers = _float8_numbers(dtype)[: largest + 1].astype(np.float64)
    size = np.abs(np.asarray(value, np.float64))
    up = np.clip(np.searchsorted(numbers, size), 1, largest)
    middle = (numbers[up - 1] + numbers[up]) / 2
    found = np.where((size > middle) | ((size == middle) & (up % 2 == 0)), up, up - 1)
    bits = (found | np.where(np.signbit(value), 0x80, 0)).astype(np.uint8)
    if nan == 0x80:
        bits = np.where(found == 0, np.uint8(0), bits)
    return np.where(np.isnan(value), np.uint8(largest if nan is None else nan), bits)


def convert(value: Any, dtype: ir.DType) -> Array:
    """Numbers as an IR dtype: rounded to nearest even, or towards zero when it is an integer type."""
    source = np.asarray(value)
    if dtype == ir.BF16:
        return widen_bf16(narrow_bf16(_to_f32_odd(source)))
    if dtype.is_float8:
        return widen_float8(narrow_float8(source.astype(np.float32), dtype), dtype)
    if dtype.is_bool:
        return np.asarray(source != 0)
    if dtype.is_int and source.dtype.kind == "f":
        return _float_to_int(source, dtype)
    return source.astype(_NUMPY[dtype])


def _to_f32_odd(value: Array) -> Array:
    """f32 for a second rounding to bf16; wider types are rounded to odd, so that it is rounded once."""
    if value.dtype in (np.float32, np.float16, np.bool_) or value.dtype.itemsize < 4:
        return value.astype(np.float32)
    near = value.astype(np.float32)
    wide = value.astype(np.longdouble)
    inexact = (near.astype(np.longdouble) != wide) & np.isfinite(near)
    towards_zero = np.where(
        np.abs(near.astype(np.longdouble)) > np.abs(wide), np.nextafter(near, np.float32(0)), near
    )
    odd = (np.asarray(towards_zero, np.float32).view(np.uint32) | 1).view(np.float32)
    return np.where(inexact, odd, near)


def _float_to_int(value: Array, dtype: ir.DType) -> Array:
    if dtype.kind == "uint" and dtype.bits == 64:
        return np.where(value >= 0, value, 0).astype(np.uint64)
    return np.trunc(value).astype(np.int64).astype(_NUMPY[dtype])


def from_python(value: Any, type: ir.Type) -> Array:
    """A number, or an array of one element, as a scalar or splat of a type; integers wrap."""
    dtype = type.dtype
    if dtype.is_int and not dtype.is_bool:
        number = int(value) & (2**dtype.bits - 1)
        single: Any = np.array(number, f"u{dtype.size}").astype(_NUMPY[dtype])
    else:
        single = convert(np.asarray(value), dtype)
    return np.full(type.shape, single) if type.shape else single


# --- arithmetic ------------------------------------------------------------------------------------


def _idiv(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a), (a - np.fmod(a, safe)) // safe)


def _irem(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, np.ones_like(b), b)))


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a, b).astype(a.dtype)


def _add(a: Array, b: Array) -> Array:
    return a ^ b if a.dtype == np.bool_ else a + b


def _mul(a: Array, b: Array) -> Array:
    return a & b if a.dtype == np.bool_ else a * b


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": _add,
    "sub": lambda a, b: a ^ b if a.dtype == np.bool_ else a - b,
    "mul": _mul,
    "min": np.fmin,
    "max": np.fmax,
    "div": np.divide,
    "frem": np.fmod,
    "idiv": _idiv,
    "irem": _irem,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
}
_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_erf: Callable[[Array], Array] = np.frompyfunc(math.erf, 1, 1)
_PRECISE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": lambda x: np.asarray(_erf(x), np.float64),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _binary(op: ir.Op, operands: list[Array]) -> Array:
    a, b = (np.asarray(v) for v in operands)
    return convert(_BINARY[op.opcode](a, b), op.result.type.dtype)


def _precise(op: ir.Op, operands: list[Array]) -> Array:
    wide = np.asarray(operands[0]).astype(np.float64)
    return convert(_PRECISE[op.opcode](wide), op.result.type.dtype)


def _neg(op: ir.Op, operands: list[Array]) -> Array:
    value = np.asarray(operands[0])
    return value if value.dtype == np.bool_ else -value


def _fma(op: ir.Op, operands: list[Array]) -> Array:
    a, b, c = (np.asarray(v).astype(np.longdouble) for v in operands)
    return convert((a * b + c).astype(np.float64), op.result.type.dtype)


def _cast(op: ir.Op, operands: list[Array]) -> Array:
    return convert(operands[0], op.result.type.dtype)


def _bitcast(op: ir.Op, operands: list[Array]) -> Array:
    if op.result.type.is_pointer:
        return operands[0]
    source, target = op.operands[0].type.dtype, op.result.type.dtype
    value = np.asarray(operands[0])
    bits = narrow_bf16(value) if source == ir.BF16 else value
    if source.is_float8:
        bits = narrow_float8(value, source)
    if target == ir.BF16:
        return widen_bf16(bits.view(np.uint16))
    if target.is_float8:
        return widen_float8(bits.view(np.uint8), target)
    return bits.view(_NUMPY[target])


def _addptr(op: ir.Op, operands: list[Array]) -> Array:
    size = op.result.type.dtype.size
    return np.asarray(operands[0]) + np.asarray(operands[1]).astype(np.int64) * size


# --- shapes, reductions, products ------------------------------------------------------------------


def _trans(op: ir.Op, operands: list[Array]) -> Array:
    perm = op.attrs["perm"]
    assert isinstance(perm, tuple)
    return np.transpose(operands[0], perm)


def _extreme(value: Array, axis: int, largest: bool) -> Array:
    """Index of the first extreme element, NaN ignored unless there is nothing else."""
    if value.dtype.kind == "f":
        value = np.where(np.isnan(value), -np.inf if largest else np.inf, value)
    found = np.argmax(value, axis) if largest else np.argmin(value, axis)
    return np.asarray(found, np.int32)


def _sum(value: Array, axis: int) -> Array:
    if value.dtype == np.bool_:
        return np.asarray(np.bitwise_xor.reduce(value, axis))
    return np.asarray(
        np.add.reduce(value, axis, dtype=np.float64 if value.dtype.kind == "f" else value.dtype)
    )


_REDUCE: dict[str, Callable[[Array, int], Array]] = {
    "sum": _sum,
    "max": np.fmax.reduce,
    "min": np.fmin.reduce,
    "argmax": lambda v, axis: _extreme(v, axis, True),
    "argmin": lambda v, axis: _extreme(v, axis, False),
    "any": np.bitwise_or.reduce,
    "all": np.bitwise_and.reduce,
}


def _reduce(op: ir.Op, operands: list[Array]) -> Array:
    axis, kind = op.attrs["axis"], op.attrs["kind"]
    assert isinstance(axis, int)
    assert isinstance(kind, str)
    return convert(_REDUCE[kind](np.asarray(operands[0]), axis), op.result.type.dtype)


def _dot(op: ir.Op, operands: list[Array]) -> Array:
    dtype = op.result.type.dtype
    wide = np.float64 if dtype.is_float else np.int64
    a, b, acc = (np.asarray(v).astype(wide) for v in operands)
    total = np.asarray(a @ b + acc)
    return convert(total, dtype) if dtype.is_float else total.astype(_NUMPY[dtype])


def _arange(op: ir.Op, operands: list[Array]) -> Array:
    start, end = op.attrs["start"], op.attrs["end"]
    assert isinstance(start, int)
    assert isinstance(end, int)
    return np.arange(start, end, dtype=np.int32)


def _axis(op: ir.Op) -> int:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return axis


ATOMICS: dict[str, Callable[..., Any]] = {
    "atomic_add": lambda old, value: old + value,
    "atomic_max": np.fmax,
    "atomic_min": np.fmin,
    "atomic_and": lambda old, value: old & value,
    "atomic_or": lambda old, value: old | value,
    "atomic_xor": lambda old, value: old ^ value,
    "atomic_xchg": lambda old, value: value,
    "atomic_cas": lambda old, expected, value: value if old == expected else old,
}
OPS: dict[str, Compute] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_PRECISE, _precise),
    "const": lambda op, v: from_python(op.attrs["value"], op.result.type),
    "arange": _arange,
    "splat": lambda op, v: np.full(op.result.type.shape, v[0]),
    "broadcast": lambda op, v: np.broadcast_to(v[0], op.result.type.shape),
    "expand_dims": lambda op, v: np.expand_dims(v[0], _axis(op)),
    "reshape": lambda op, v: np.reshape(v[0], op.result.type.shape),
    "trans": _trans,
    "slice": lambda op, v: np.take(v[0], int(op.attrs["index"]), _axis(op)),  # type: ignore[arg-type]
    "cmp": lambda op, v: np.asarray(_COMPARE[str(op.attrs["pred"])](v[0], v[1])),
    "select": lambda op, v: np.where(v[0], v[1], v[2]),
    "neg": _neg,
    "abs": lambda op, v: np.abs(v[0]),
    "not": lambda op, v: np.invert(v[0]),
    "fma": _fma,
    "cast": _cast,
    "bitcast": _bitcast,
    "addptr": _addptr,
    "reduce": _reduce,
    "dot": _dot,
}
