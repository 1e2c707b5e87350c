"""The 16-bit float formats: between their bits and f32, with instructions every target has.

Arithmetic on f16 and bf16 is done in f32.  bf16 goes through integers always (hardware conversions flush
denormals, and where there are none LLVM would call a library); f16 uses the hardware if it is there.
"""

from __future__ import annotations

from portkit.runtime.targets import Target
from portkit.runtime.tile.lower.emit import Code, V


def hardware_f16(target: Target) -> bool:
    """Whether LLVM has an instruction for f16 ↔ f32."""
    if target.name == "x86_64":
        return (target.has("f16c") and target.has("avx")) or target.has("avx512f")
    return target.name == "aarch64"


def widen(code: Code, target: Target, kind: str, bits: V) -> V:
    """i16 bits of kind "float" (f16) or "bfloat" → f32."""
    if kind == "float" and hardware_f16(target):
        return code.cast("fpext", code.cast("bitcast", bits, "half"), "float")
    wide = code.cast("zext", bits, "i32")
    t = wide.type
    if kind == "bfloat":
        return code.cast("bitcast", code.bin("shl", wide, code.const(16, t)), "float")
    sign = code.bin("shl", code.bin("and", wide, code.const(0x8000, t)), code.const(16, t))
    rest = code.bin("shl", code.bin("and", wide, code.const(0x7FFF, t)), code.const(13, t))
    small = code.cast("bitcast", rest, "float")
    scaled = code.cast("bitcast", code.bin("fmul", small, code.const(2.0**112, small.type)), "i32")
    special = code.compare("icmp uge", rest, code.const(0x7C00 << 13, t))
    magnitude = code.select(special, code.bin("or", rest, code.const(0x7F800000, t)), scaled)
    return code.cast("bitcast", code.bin("or", magnitude, sign), "float")


def bits(code: Code, target: Target, kind: str, value: V) -> V:
    """The i16 bits of a number of that kind, which is held as f32: nothing is left to round."""
    if kind != "bfloat":
        return narrow(code, target, kind, value)
    wide = code.cast("bitcast", value, "i32")
    return code.cast("trunc", code.bin("lshr", wide, code.const(16, wide.type)), "i16")


def narrow(code: Code, target: Target, kind: str, value: V) -> V:
    """f32 → i16 bits of kind "float" (f16) or "bfloat", to the nearest, ties to even; NaN stays NaN."""
    if kind == "float" and hardware_f16(target):
        return code.cast("bitcast", code.cast("fptrunc", value, "half"), "i16")
    bits = code.cast("bitcast", value, "i32")
    return code.cast("trunc", (_to_bf16 if kind == "bfloat" else _to_f16)(code, bits, value), "i16")


def _to_bf16(code: Code, bits: V, value: V) -> V:
    t = bits.type
    high = code.bin("lshr", bits, code.const(16, t))
    odd = code.bin("and", high, code.const(1, t))
    rounded = code.bin("add", code.bin("add", bits, code.const(0x7FFF, t)), odd)
    nan = code.bin("or", high, code.const(0x40, t))
    return code.select(
        code.compare("fcmp uno", value, value), nan, code.bin("lshr", rounded, code.const(16, t))
    )


def _to_f16(code: Code, bits: V, value: V) -> V:
    t = bits.type
    sign = code.bin("and", code.bin("lshr", bits, code.const(16, t)), code.const(0x8000, t))
    a = code.bin("and", bits, code.const(0x7FFFFFFF, t))
    half = code.const(0.5, value.type)
    tiny = code.cast("bitcast", code.bin("fadd", code.cast("bitcast", a, "float"), half), "i32")
    tiny = code.bin("sub", tiny, code.const(0x3F000000, t))
    odd = code.bin("and", code.bin("lshr", a, code.const(13, t)), code.const(1, t))
    normal = code.bin("add", code.bin("add", a, code.const(0xC8000FFF, t)), odd)
    normal = code.bin("lshr", normal, code.const(13, t))
    result = code.select(code.compare("icmp ult", a, code.const(0x38800000, t)), tiny, normal)
    huge = code.compare("icmp uge", a, code.const(0x47800000, t))
    nan = code.compare("icmp ugt", a, code.const(0x7F800000, t))
    special = code.select(nan, code.const(0x7E00, t), code.const(0x7C00, t))
    return code.bin("or", code.select(huge, special, result), sign)
