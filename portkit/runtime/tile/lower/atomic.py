"""Atomic additions: one lane after the other; masked-off lanes add to a dummy of the thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.lower.elementwise import memory_element
from portkit.runtime.tile.lower.emit import PTR, V
from portkit.runtime.tile.lower.place import Index

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program


def lower_atomic(program: Program, op: ir.Op) -> None:
    """`atomic_add` of a scalar or, element by element, of a tile."""
    if op.operands[0].type.dtype.bits < 32:
        raise KernelError("atomic_add takes 32- and 64-bit numbers", place=str(op.loc or ""))
    code, evaluator = program.code, program.evaluator
    shape = op.operands[0].type.shape
    if not shape:
        args = [program.context.scalars[v] for v in op.operands]
        program.context.scalars[op.result] = _one(program, op, args)
        return
    used = any(op.result in other.operands for other in program.func.walk())
    buffer = program.buffer(op.result) if used else None
    evaluator.lanes = 0

    def nest(dims: list[int], place: tuple[Index, ...]) -> None:
        if not dims:
            args = [evaluator.at(v, place) for v in op.operands]
            old = _one(program, op, args)
            if buffer is not None:
                evaluator.memory.write(buffer, place, old)
            return

        def body(index: V, _: list[V]) -> list[V]:
            nest(dims[1:], (*place, Index(index, False, dims[0])))
            return []

        code.loop(code.i64(0), code.i64(shape[dims[0]]), 1, [], body)

    with code.scope():
        nest(list(range(len(shape))), ())
    if buffer is not None:
        program.context.buffers[op.result] = buffer


def _one(program: Program, op: ir.Op, args: list[V]) -> V:
    code = program.code
    pointer, value = args[0], args[1]
    if len(args) > 2:
        pointer = code.op("select i1 {}, ptr {}, ptr {}", PTR, args[2], pointer, program.context.dummy)
    kind = "fadd" if value.type.is_float else "add"
    assert memory_element(op.operands[0].type.dtype) == value.type.elt
    return code.here(f"atomicrmw {kind} ptr {pointer.text}, {value.type} {value.text} monotonic", value.type)
