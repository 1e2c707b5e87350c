"""Products of numbers in small formats with shared scales (microscaling): decoded to f32, then multiplied."""

from __future__ import annotations

from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.library.assemble import _shaped, interleave
from portkit.runtime.tile.frontend.library.reduce import dot
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe

_BYTES = (ir.U8, ir.I8)
_FORMATS: dict[str, tuple[ir.DType, ...]] = {
    "e2m1": _BYTES,  # two in a byte, the first in the low half
    "e4m3": (ir.F8E4NV, *_BYTES),
    "e5m2": (ir.F8E5, *_BYTES),
    "fp16": (ir.F16,),
    "bf16": (ir.BF16,),
}


def dot_scaled(
    sem: Semantics,
    lhs: ir.Value,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: ir.Value,
    rhs_scale: Any,
    rhs_format: Any,
    acc: ir.Value | None = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: ir.DType = ir.F32,
) -> ir.Value:
    """Both sides decoded and scaled in f32; `rhs` is turned, so that its rows lie along the sum, and back."""
    if not (constant(lhs_k_pack) and constant(rhs_k_pack)):
        raise KernelError(
            "tl.dot_scaled takes pairs of 4-bit numbers along the sum only",
            remedy="Pack along K, and leave lhs_k_pack and rhs_k_pack out.",
        )
    left = _rows(sem, "lhs", lhs, lhs_scale, lhs_format)
    right = _rows(sem, "rhs", _turned(sem, rhs), rhs_scale, rhs_format)
    return dot(sem, left, _turned(sem, right), acc, input_precision="ieee", out_dtype=out_dtype)


def _turned(sem: Semantics, value: ir.Value) -> ir.Value:
    if not isinstance(value, ir.Value) or len(value.type.shape) != 2:
        raise KernelError(f"tl.dot_scaled needs two matrices, not {describe(value)}")
    shape = (value.type.shape[1], value.type.shape[0])
    return sem.builder.value("trans", [value], value.type.with_shape(shape), perm=(1, 0))


def _rows(sem: Semantics, side: str, value: ir.Value, scale: Any, text: Any) -> ir.Value:
    """[rows, K] in f32, each group of neighbours along K times its scale."""
    name = str(text).lower()
    taken = _FORMATS.get(name)
    if taken is None:
        raise KernelError(
            f"tl.dot_scaled knows no format {text!r}", remedy=f"Formats: {', '.join(_FORMATS)}."
        )
    if not isinstance(value, ir.Value) or len(value.type.shape) != 2 or value.type.element not in taken:
        kinds = " or ".join(map(str, taken))
        raise KernelError(f"{side} of tl.dot_scaled in {name} is a matrix of {kinds}, not {describe(value)}")
    numbers = _decoded(sem, value, name)
    if scale is None:
        return numbers
    return sem.binary("*", numbers, _spread(sem, side, scale, numbers.type.shape))


def _decoded(sem: Semantics, value: ir.Value, name: str) -> ir.Value:
    if name == "e2m1":
        byte = sem.cast(sem.cast(value, ir.U8), ir.I32)
        halves = sem.binary("&", byte, 15), sem.binary(">>", byte, 4)
        return interleave(sem, *(_four_bits(sem, half) for half in halves))
    if name in ("e4m3", "e5m2") and value.type.element in _BYTES:
        wanted = ir.F8E4NV if name == "e4m3" else ir.F8E5
        value = sem.builder.value("bitcast", [value], value.type.with_element(wanted))
    return sem.cast(value, ir.F32)


def _four_bits(sem: Semantics, code: ir.Value) -> ir.Value:
    """A sign, two bits of an exponent with bias 1, one of the mantissa."""
    size = sem.binary("&", code, 7)
    exponent = sem.binary("<<", sem.binary("+", sem.binary(">>", size, 1), 126), 23)
    bits = sem.binary("|", exponent, sem.binary("<<", sem.binary("&", size, 1), 22))
    normal = sem.builder.value("bitcast", [bits], bits.type.with_element(ir.F32))
    small = sem.binary("*", sem.cast(size, ir.F32), 0.5)
    magnitude = sem.select(sem.compare("<", size, 2), small, normal)
    return sem.select(sem.compare("<", code, 8), magnitude, sem.negate(magnitude))


def _spread(sem: Semantics, side: str, scale: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """One scale for each element: [rows, K / group] → [rows, K]."""
    rows, count = shape
    have = scale.type.shape if isinstance(scale, ir.Value) else ()
    if len(have) != 2 or have[0] != rows or count not in (16 * have[1], 32 * have[1]):
        raise KernelError(
            f"{side}_scale of tl.dot_scaled is {describe(scale)}, which does not fit {list(shape)}",
            remedy="It has a row for each row of lhs, or column of rhs, and a scale for 32 (or 16) numbers.",
        )
    wide = sem.expand(_scales(sem, side, scale), 2)
    return _shaped(sem, sem.broadcast(wide, (rows, have[1], count // have[1])), shape)


def _scales(sem: Semantics, side: str, scale: ir.Value) -> ir.Value:
    """Bytes are exponents of 2 with bias 127, 255 is NaN; 8-bit floats are numbers."""
    if scale.type.element == ir.F8E4NV:
        return sem.cast(scale, ir.F32)
    if scale.type.element not in _BYTES:
        raise KernelError(f"{side}_scale of tl.dot_scaled holds u8 or fp8e4nv, not {scale.type.element}")
    byte = sem.cast(sem.cast(scale, ir.U8), ir.I32)
    bits = sem.binary("<<", byte, 23)
    power = sem.builder.value("bitcast", [bits], bits.type.with_element(ir.F32))
    power = sem.select(sem.compare("==", byte, 0), 2.0**-127, power)
    return sem.select(sem.compare("==", byte, 255), float("nan"), power)
