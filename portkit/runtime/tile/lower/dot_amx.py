"""dot on the tile registers of x86-64 (AMX): 16-bit floats into f32, bytes into 32-bit integers.

A tile register holds 16 rows of 64 bytes.  The left operand lies row by row, the right one in panels of 16
columns in which the 2 (or 4) numbers that follow one another along the depth lie side by side, as the
instructions want them.  Two by two tiles of the result stay in registers over the whole depth.  Like the
instructions of other processors for these types they flush denormal products of bf16 to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from portkit.runtime.targets import Target
from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import source_dims
from portkit.runtime.tile.lower.emit import Code, T, V
from portkit.runtime.tile.lower.evaluate import Evaluator
from portkit.runtime.tile.lower.extent import depth_of, is_zero
from portkit.runtime.tile.lower.group import Root
from portkit.runtime.tile.lower.place import Index
from portkit.runtime.tile.lower.storage import Buffer

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program

SIDE, ROW_BYTES = 16, 64  # rows of a tile register, bytes of a row
_A, _B = 4, 6  # the first tile registers of the operands; the result has 0 to 3


def instruction(op: ir.Op, target: Target) -> str:
    """The instruction that computes a `dot`, or nothing where there is none for its types and sizes."""
    a, b, c = (operand.type for operand in op.operands[:3])
    rows, depth = a.shape
    columns = b.shape[1]
    if not target.has("amx-tile") or rows % SIDE or columns % SIDE or depth * a.dtype.size % ROW_BYTES:
        return ""
    if (a.dtype, b.dtype, c.dtype) == (ir.BF16, ir.BF16, ir.F32):
        return "tdpbf16ps" if target.has("amx-bf16") else ""
    is_bytes = a.dtype == b.dtype and a.dtype.is_int and a.dtype.bits == 8
    if is_bytes and c.dtype == ir.I32 and target.has("amx-int8"):
        return "tdpbssd" if a.dtype.is_signed else "tdpbuud"
    return ""


class TileDot:
    """One product: sizes, the numbers that share 32 bits, and where operands and result lie."""

    def __init__(self, program: Program, op: ir.Op, name: str) -> None:
        self.program = program
        self.op = op
        self.name = name
        self.code: Code = program.code
        self.rows, self.depth = op.operands[0].type.shape
        self.columns = op.operands[1].type.shape[1]
        self.size = op.operands[0].type.dtype.size
        self.packed = ir.I16 if self.size == 2 else ir.I8
        self.group = 4 // self.size
        self.evaluator = Evaluator(program.context)
        self.evaluator.lanes = SIDE
        self.filled = depth_of(self.evaluator, op.operands[0], op.operands[1], ROW_BYTES // self.size)

    def emit(self) -> None:
        """Packs the operands and multiplies them; the result's buffer is put into the context."""
        program, op = self.program, self.op
        self._configure()
        left = self._left(op.operands[0])
        target = program.targets.get(op.result) or program.buffer(op.result)
        in_place = program.context.buffers.get(op.operands[2]) is target
        starts_at_zero = is_zero(op.operands[2])
        if not in_place and not starts_at_zero:
            total = op.operands[2]
            program.add(Root("keep", total, total.type.shape, None, target, None))
        program.flush()
        right = self._right(op.operands[1])
        self._multiply(left, right, target, starts_at_zero)
        program.context.buffers[op.result] = target

    def _configure(self) -> None:
        """All tiles 16 rows of 64 bytes: set once, before the first program of the range."""
        program, code = self.program, self.code
        if program.at_end:
            return
        program.at_end.append("call void @llvm.x86.tilerelease()")
        code.declare("llvm.x86.tilerelease", "void")
        code.declare("llvm.x86.ldtilecfg", "void", T("ptr"))
        bytes_ = [1, *[0] * 15, *[ROW_BYTES, 0] * 8, *[0] * 16, *[SIDE] * 8, *[0] * 8]
        where = program.scratch(64)
        items = ", ".join(f"i8 {b}" for b in bytes_)
        code.line(f"store <64 x i8> <{items}>, ptr {where.text}, align 64", 0)
        code.line(f"call void @llvm.x86.ldtilecfg(ptr {where.text})", 0)

    # --- operands -------------------------------------------------------------------------------------

    def _left(self, value: ir.Value) -> Buffer:
        """The left operand, row by row; rows don't fall on the same cache sets."""
        row = self.depth + ROW_BYTES // self.size
        where = self.program.scratch(self.rows * row * self.size)
        buffer = Buffer(where, self.packed, (self.rows, self.depth), (row, 1))
        self.program.add(Root("keep", self._bits(value), buffer.shape, None, buffer, None))
        return buffer

    def _right(self, value: ir.Value) -> V:
        """The address of the right operand, in panels of 16 columns."""
        code, group = self.code, self.group
        where = self.program.scratch(self.depth * self.columns * self.size)
        bits = self._bits(value)
        panel_bytes = self.depth * SIDE * self.size
        unroll = next(n for n in (4, 2, 1) if self.columns % (n * SIDE) == 0)

        def panels(column: V, _: list[V]) -> list[V]:
            columns = [code.add(column, code.i64(number * SIDE)) for number in range(unroll)]
            bases = [code.gep("i8", where, code.mul(at, code.i64(panel_bytes // SIDE))) for at in columns]

            def down(k: V, _: list[V]) -> list[V]:
                for at, base in zip(columns, bases, strict=True):
                    place = Index(at, True, 1)
                    rows = [
                        code.splat(
                            self.evaluator.at(bits, (Index(code.add(k, code.i64(j)), False, 0), place)), SIDE
                        )
                        for j in range(group)
                    ]
                    together = self._interleave(rows)
                    to = code.gep("i8", base, code.mul(k, code.i64(SIDE * self.size)))
                    code.line(f"store {together.type} {together.text}, ptr {to.text}, align 64")
                return []

            code.loop(code.i64(0), self.filled, group, [], down)
            return []

        with code.scope():
            code.loop(code.i64(0), code.i64(self.columns), unroll * SIDE, [], panels)
        return where

    def _interleave(self, rows: list[V]) -> V:
        """Lane by lane the numbers of all rows."""
        code = self.code
        if len(rows) == 4:
            rows = [code.join(a, b, range(2 * SIDE)) for a, b in (rows[:2], rows[2:])]
        lanes = rows[0].type.lanes
        order = [
            lanes * (j * SIDE // lanes) + j * SIDE % lanes + column
            for column in range(SIDE)
            for j in range(self.group)
        ]
        return code.join(rows[0], rows[1], order)

    def _bits(self, value: ir.Value) -> ir.Value:
        """The operand as plain bits, so that moving it converts nothing."""
        to = value.type.with_element(self.packed)
        build = ir.Builder(ir.Block())
        op = value.owner
        kept = value in self.program.context.buffers or value in self.program.kept
        if self.size == 1:
            return value if value.type.dtype == self.packed else build.value("bitcast", [value], to)
        if op is None or kept:
            return build.value("bitcast", [value], to)
        if op.opcode == "load" and (not op.attrs.get("has_other") or is_zero(op.operands[2])):
            operands = op.operands[:2] if op.attrs.get("has_mask") else op.operands[:1]
            return build.value("load", operands, to, **{**op.attrs, "has_other": False})
        if source_dims(op) is not None:
            return build.value(op.opcode, [self._bits(op.operands[0])], to, **op.attrs)
        return build.value("bitcast", [value], to)

    # --- the product ----------------------------------------------------------------------------------

    def _multiply(self, left: Buffer, right: V, target: Buffer, starts_at_zero: bool) -> None:
        """Block by block; rows of the left operand stay in the near cache while the panels stream by."""
        code = self.code

        def blocks(height: int) -> Callable[[V, list[V]], list[V]]:
            def along(row: V, _: list[V]) -> list[V]:
                for first, last, width in _runs(self.columns):

                    def block(column: V, _: list[V], width: int = width) -> list[V]:
                        self._block(row, column, height, width, left, right, target, starts_at_zero)
                        return []

                    code.loop(code.i64(first), code.i64(last), width * SIDE, [], block)
                return []

            return along

        with code.scope():
            for first, last, height in _runs(self.rows):
                code.loop(code.i64(first), code.i64(last), height * SIDE, [], blocks(height))

    def _block(
        self,
        row: V,
        column: V,
        height: int,
        width: int,
        left: Buffer,
        right: V,
        target: Buffer,
        starts_at_zero: bool,
    ) -> None:
        """`height` by `width` tiles of the result, over the whole depth."""
        code = self.code
        result_row = target.strides[0] * 4
        corner = code.gep("i32", target.pointer, code.add(code.mul(row, code.i64(target.strides[0])), column))
        tiles = [
            (m * width + n, code.gep("i8", corner, code.i64(m * SIDE * result_row + n * ROW_BYTES)))
            for m in range(height)
            for n in range(width)
        ]
        for tile, where in tiles:
            if starts_at_zero:
                self._tile("tilezero", tile)
            else:
                self._move("tileloadd64", tile, where, result_row)
        left_row = left.strides[0] * self.size
        first = code.gep("i8", left.pointer, code.mul(row, code.i64(left_row)))
        panel_bytes = self.depth * SIDE * self.size
        panel = code.gep("i8", right, code.mul(column, code.i64(panel_bytes // SIDE)))

        def step(k: V, _: list[V]) -> list[V]:
            for m in range(height):
                at = code.add(code.mul(k, code.i64(self.size)), code.i64(m * SIDE * left_row))
                self._move("tileloadd64", _A + m, code.gep("i8", first, at), left_row)
            for n in range(width):
                at = code.add(code.mul(k, code.i64(SIDE * self.size)), code.i64(n * panel_bytes))
                self._move("tileloadd64", _B + n, code.gep("i8", panel, at), ROW_BYTES)
                for m in range(height):
                    self._tile(self.name, m * width + n, _A + m, _B + n)
            return []

        code.loop(code.i64(0), self.filled, ROW_BYTES // self.size, [], step)
        for tile, where in tiles:
            self._move("tilestored64", tile, where, result_row)

    def _move(self, name: str, tile: int, where: V, stride: int) -> None:
        """A tile register from or to memory, whose rows are `stride` bytes apart."""
        code = self.code
        code.declare(f"llvm.x86.{name}", "void", T("i8 immarg"), T("ptr"), T("i64"))
        code.line(f"call void @llvm.x86.{name}(i8 {tile}, ptr {where.text}, i64 {stride})")

    def _tile(self, name: str, *tiles: int) -> None:
        code = self.code
        code.declare(f"llvm.x86.{name}", "void", *[T("i8 immarg")] * len(tiles))
        code.line(f"call void @llvm.x86.{name}({', '.join(f'i8 {tile}' for tile in tiles)})")


def _runs(size: int) -> list[tuple[int, int, int]]:
    """Pairs of tiles along a side, then the one that is left: (first, last, tiles at once)."""
    pairs = size // (2 * SIDE) * (2 * SIDE)
    return [(0, pairs, 2), (pairs, size, 1)]


__all__ = ["SIDE", "TileDot", "instruction"]
