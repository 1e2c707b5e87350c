"""8-bit floats become bytes, their conversions from and to f32 integer arithmetic: no target needs them.

Only memory, shapes, choices, bit casts and conversions see these types; everything else is computed in f32.
"""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes._rewrite import Rewriter

_F32_MANTISSA, _F32_BIAS = 23, 127


def run(func: ir.Function) -> ir.Function:
    """The function without 8-bit floats."""
    values = [*func.params, *(v for op in func.walk() for v in (*op.results, *_arguments(op)))]
    return _Bytes().function(func) if any(_is_float8(v.type.dtype) for v in values) else func


def _arguments(op: ir.Op) -> list[ir.Value]:
    return [arg for region in op.regions for arg in region.args]


def _is_float8(dtype: ir.DType) -> bool:
    return dtype.is_float8


def _mapped(type: ir.Type) -> ir.Type:
    if not type.dtype.is_float8:
        return type
    return type.with_element(ir.Pointer(ir.U8) if type.is_pointer else ir.U8)


class _Bytes(Rewriter):
    def argument(self, value: ir.Value) -> ir.Value:
        new = ir.Value(_mapped(value.type), value.name)
        self.values[value] = new
        return new

    def op(self, op: ir.Op, out: ir.Block) -> None:
        source = op.operands[0].type.dtype if op.operands else None
        target = op.result.type.dtype if len(op.results) == 1 else None
        if op.opcode == "cast" and source is not None and source.is_float8:
            self.values[op.result] = Bits(op, out).widened(source, self.values[op.operands[0]])
        elif op.opcode == "cast" and target is not None and target.is_float8:
            self.values[op.result] = Bits(op, out).narrowed(target, self.values[op.operands[0]])
        else:
            self._plain(op, out)

    def _plain(self, op: ir.Op, out: ir.Block) -> None:
        new = self.copy(op, out)
        for result in new.results:
            result.type = _mapped(result.type)
        if op.opcode == "const" and op.result.type.dtype.is_float8:
            new.attrs["value"] = encode(float(op.attrs["value"]), op.result.type.dtype)  # type: ignore[arg-type]
        if op.opcode == "bitcast" and new.operands[0].type == new.result.type:
            out.ops.remove(new)
            self.values[op.result] = new.operands[0]


def encode(value: float, dtype: ir.DType) -> int:
    """The bits of the number nearest to a constant."""
    import numpy as np

    from portkit.runtime.tile.interpret_ops import narrow_float8

    return int(narrow_float8(np.asarray(value, np.float32), dtype))


class Bits:
    """Emits operations on the bits of numbers, of the shape of one operation's result."""

    def __init__(self, op: ir.Op, out: ir.Block) -> None:
        self.builder = ir.Builder(out)
        self.builder.loc = op.loc
        self.shape = op.result.type.shape

    def _op(self, name: str, dtype: ir.DType, *operands: ir.Value | int, **attrs: ir.Attribute) -> ir.Value:
        kind = next(v.type for v in operands if isinstance(v, ir.Value))
        values = [v if isinstance(v, ir.Value) else self._const(v, kind.dtype) for v in operands]
        return self.builder.value(name, values, ir.Type(dtype, self.shape), **attrs)

    def _const(self, value: float, dtype: ir.DType) -> ir.Value:
        return self.builder.const(float(value) if dtype.is_float else int(value), ir.Type(dtype, self.shape))

    def _int(self, name: str, *operands: ir.Value | int) -> ir.Value:
        return self._op(name, ir.U32, *operands)

    def _test(self, pred: str, a: ir.Value, b: ir.Value | int) -> ir.Value:
        return self._op("cmp", ir.I1, a, b, pred=pred)

    def _choose(self, test: ir.Value, a: ir.Value | int, b: ir.Value) -> ir.Value:
        first = a if isinstance(a, ir.Value) else self._const(a, b.type.dtype)
        return self.builder.value("select", [test, first, b], b.type)

    def widened(self, dtype: ir.DType, value: ir.Value) -> ir.Value:
        """The f32 of an 8-bit float."""
        mantissa, bias, largest, nan = ir.FP8[dtype.kind]
        wide = self._op("cast", ir.U32, value)
        size = self._int("and", wide, 0x7F)
        moved = self._int("shl", size, _F32_MANTISSA - mantissa)
        normal = self._int("add", moved, (_F32_BIAS - bias) << _F32_MANTISSA)
        unit = self._const(2.0 ** (1 - bias - mantissa), ir.F32)
        small = self._op("mul", ir.F32, self._op("cast", ir.F32, size), unit)  # numbers without a leading one
        bits = self._choose(self._test("lt", size, 1 << mantissa), self._op("bitcast", ir.U32, small), normal)
        bits = self._int("or", bits, self._int("shl", self._int("and", wide, 0x80), 24))
        if nan == 0x80:
            bits = self._choose(self._test("eq", wide, nan), 0x7FC00000, bits)
        elif nan is not None:
            beyond = self._test("gt", size, largest)
            if dtype == ir.F8E5:  # it has infinities
                infinite = self._int("or", self._int("and", bits, 0x80000000), 0x7F800000)
                bits = self._choose(self._test("eq", size, largest + 1), infinite, bits)
                beyond = self._test("gt", size, largest + 1)
            bits = self._choose(beyond, 0x7FC00000, bits)
        return self._op("bitcast", ir.F32, bits)

    def narrowed(self, dtype: ir.DType, value: ir.Value) -> ir.Value:
        """The nearest 8-bit float of an f32, ties to even; the largest one beyond it; NaN stays NaN."""
        mantissa, bias, largest, nan = ir.FP8[dtype.kind]
        drop = _F32_MANTISSA - mantissa
        bits = self._op("bitcast", ir.U32, value)
        size = self._int("and", bits, 0x7FFFFFFF)
        odd = self._int("and", self._int("shr", size, drop), 1)
        rounded = self._int("add", self._int("add", size, (1 << (drop - 1)) - 1), odd)
        normal = self._int("sub", self._int("shr", rounded, drop), (_F32_BIAS - bias) << mantissa)
        # below the smallest normal number: adding a power of two rounds where the last bit is
        magic = 2.0 ** (1 - bias - mantissa + _F32_MANTISSA)
        small = self._op("add", ir.F32, self._op("abs", ir.F32, value), self._const(magic, ir.F32))
        small_bits = self._int("sub", self._op("bitcast", ir.U32, small), _bits_of(magic))
        is_small = self._test("lt", size, (1 - bias + _F32_BIAS) << _F32_MANTISSA)
        result = self._choose(is_small, small_bits, self._op("min", ir.U32, normal, largest))
        sign = self._int("shr", self._int("and", bits, 0x80000000), 24)
        if nan == 0x80:  # the bits of minus zero are taken
            sign = self._choose(self._test("eq", result, 0), 0, sign)
        result = self._int("or", result, sign)
        unknown = largest if nan is None else nan
        result = self._choose(self._test("gt", size, 0x7F800000), unknown, result)
        return self._op("cast", ir.U8, result)


def _bits_of(value: float) -> int:
    import struct

    return int(struct.unpack("<I", struct.pack("<f", value))[0])
