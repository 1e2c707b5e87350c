"""dot: outer products on a block of registers, the right operand packed in panels as wide as the block.

Both operands are computed while they are packed, so loads, masks and conversions cost nothing extra.  The sum
over the depth starts at zero and is added to the accumulator where the block ends, so that a loop over many
steps rounds once a step, not once a product.  The accumulator may be any tile, virtual or kept.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.lower.elementwise import register
from portkit.runtime.tile.lower.emit import Code, T, V
from portkit.runtime.tile.lower.evaluate import Evaluator
from portkit.runtime.tile.lower.extent import depth_of, is_zero
from portkit.runtime.tile.lower.group import Root
from portkit.runtime.tile.lower.place import Index, Place
from portkit.runtime.tile.lower.storage import Buffer, element_bytes, kept_element

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program


def lower_dot(program: Program, op: ir.Op) -> None:
    """`dot` of two matrices of any number types; raises KernelError for other ranks."""
    if len(op.result.type.shape) != 2:
        raise KernelError("dot takes matrices", place=str(op.loc or ""))
    Dot(program, op).emit()


class Dot:
    """One product: sizes, the shape of the register block, and where operands and result lie."""

    def __init__(self, program: Program, op: ir.Op) -> None:
        self.program = program
        self.op = op
        self.code: Code = program.code
        self.rows, self.depth = op.operands[0].type.shape
        self.columns = op.operands[1].type.shape[1]
        self.element = _compute_type(op.result.type.dtype)
        bits = max(32, self.element.bits)
        self.lanes = gcd(self.columns, program.context.target.lanes(bits))
        self.vectors = 2 if self.columns % (2 * self.lanes) == 0 else 1
        self.width = self.vectors * self.lanes
        self.evaluator = Evaluator(program.context)
        self.evaluator.lanes = self.lanes
        self.filled = depth_of(self.evaluator, op.operands[0], op.operands[1], 1)

    def emit(self) -> None:
        program, op = self.program, self.op
        left = self._left(op.operands[0])
        right = self._packed(op.operands[1], self.width)
        program.flush()
        target = program.targets.get(op.result) or program.buffer(op.result)
        most = max(1, (program.context.target.registers - self.vectors - 1) // self.vectors)
        splits = -(-self.rows // most)
        few, extra = divmod(self.rows, splits)  # `extra` blocks of few + 1 rows, the rest of few
        code = self.code

        def panel(column: V, _: list[V]) -> list[V]:
            def block(count: int, first: int, last: int) -> None:
                def body(row: V, _: list[V]) -> list[V]:
                    self._block(count, row, column, left, right, target)
                    return []

                code.loop(code.i64(first), code.i64(last), count, [], body)

            middle = extra * (few + 1)
            block(few + 1, 0, middle)
            block(few, middle, self.rows)
            return []

        with code.scope():
            code.loop(code.i64(0), code.i64(self.columns), self.width, [], panel)
        program.context.buffers[op.result] = target

    # --- operands -------------------------------------------------------------------------------------

    def _converted(self, value: ir.Value) -> ir.Value:
        """The operand in the type that is computed in."""
        if kept_element(value.type.element) == self.element:
            return value
        return ir.Builder(ir.Block()).value("cast", [value], value.type.with_element(self.element))

    def _left(self, value: ir.Value) -> Buffer:
        kept = self.program.context.buffers.get(value)
        if kept is not None and kept.element == self.element and not kept.panel:
            return kept
        return self._packed(value, 0)

    def _packed(self, value: ir.Value, panel: int) -> Buffer:
        """The operand in scratch: row by row, or in panels of columns."""
        program, (rows, columns) = self.program, value.type.shape
        row = columns + 16 if columns % 256 == 0 else columns
        count = rows * row * element_bytes(self.element)
        source = self._converted(value)
        buffer = Buffer(program.scratch(count), self.element, (rows, columns), (row, 1), panel)
        program.add(Root("keep", source, (rows, columns), None, buffer, None))
        return buffer

    # --- the register block ---------------------------------------------------------------------------

    def _block(self, count: int, row: V, column: V, left: Buffer, right: Buffer, target: Buffer) -> None:
        """`count` rows by `width` columns of the result, over the whole depth."""
        code, elt = self.code, register(self.element).elt
        places = [
            self._place(code.add(row, code.i64(m)), code.add(column, code.i64(v * self.lanes)))
            for m in range(count)
            for v in range(self.vectors)
        ]
        start = [code.const(0, T(elt, self.lanes)) for _ in places]
        panel = code.gep(elt, right.pointer, code.mul(column, code.i64(self.depth)))
        stride = left.strides[0]
        first = code.gep(elt, left.pointer, code.mul(row, code.i64(stride)))
        vector = T(elt, self.lanes)

        def step(k: V, sums: list[V]) -> list[V]:
            base = code.gep(elt, panel, code.mul(k, code.i64(self.width)))
            b = [
                self._load(vector, code.gep(elt, base, code.i64(v * self.lanes))) for v in range(self.vectors)
            ]
            at = code.gep(elt, first, k)
            out: list[V] = []
            for m in range(count):
                a = code.splat(self._load(T(elt), code.gep(elt, at, code.i64(m * stride))), self.lanes)
                pairs = zip(b, sums[m * self.vectors : (m + 1) * self.vectors], strict=True)
                out += [self._multiply_add(a, right_part, total) for right_part, total in pairs]
            return out

        sums = code.loop(code.i64(0), self.filled, 1, start, step)
        for place, total in zip(places, sums, strict=True):
            self.evaluator.memory.write(target, place, self._onto(place, total))

    def _place(self, row: V, column: V) -> Place:
        return (Index(row, False, 0), Index(column, True, 1))

    def _onto(self, place: Place, total: V) -> V:
        """The accumulator plus the sum over the depth."""
        code, value = self.code, self.op.operands[2]
        if is_zero(value):
            return total
        start = code.splat(self.evaluator.at(value, place), self.lanes)
        return code.bin("fadd" if total.type.is_float else "add", start, total)

    def _load(self, t: T, pointer: V) -> V:
        align = element_bytes(self.element) * max(t.lanes, 1)
        return self.code.op(f"load {t}, ptr {{}}, align {min(align, 64)}", t, pointer)

    def _multiply_add(self, a: V, b: V, total: V) -> V:
        if total.type.is_float:
            return self.evaluator.elementwise.math.fma(a, b, total)
        return self.code.bin("add", total, self.code.bin("mul", a, b))


def _compute_type(result: ir.DType) -> ir.DType:
    return ir.F32 if result.is_float and result.bits < 64 else result
