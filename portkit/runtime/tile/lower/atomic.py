"""Atomic operations: one lane after the other; masked-off lanes work on a dummy of the thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.lower.elementwise import memory_element
from portkit.runtime.tile.lower.emit import PTR, T, V
from portkit.runtime.tile.lower.place import Index

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program


def lower_atomic(program: Program, op: ir.Op) -> None:
    """An atomic operation on a scalar or, element by element, on a tile."""
    if op.operands[0].type.dtype.bits < 32:
        raise KernelError(
            f"{op.opcode} takes 32- and 64-bit numbers",
            place=str(op.loc or ""),
            remedy="Keep what is shared between block programs in 32 bits.",
        )
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
    dtype = op.operands[0].type.dtype
    assert memory_element(dtype) == value.type.elt
    if op.opcode == "atomic_cas":
        return _exchange(program, pointer, value, args[2])
    if len(args) > 2:
        pointer = code.op("select i1 {}, ptr {}, ptr {}", PTR, args[2], pointer, program.context.dummy)
    kind = _instruction(op.opcode.removeprefix("atomic_"), dtype)
    return code.here(f"atomicrmw {kind} ptr {pointer.text}, {value.type} {value.text} acq_rel", value.type)


def _instruction(kind: str, dtype: ir.DType) -> str:
    """The name that LLVM has for it."""
    if kind in ("add", "max", "min") and dtype.is_float:
        return f"f{kind}"
    return f"u{kind}" if kind in ("max", "min") and not dtype.is_signed else kind


def _exchange(program: Program, pointer: V, expected: V, value: V) -> V:
    """Compare and exchange, which LLVM does on integers only."""
    code = program.code
    bits = "i32" if value.type.elt in ("float", "i32") else "i64"
    old, new = (code.cast("bitcast", v, bits) if v.type.is_float else v for v in (expected, value))
    both = code.here(
        f"cmpxchg ptr {pointer.text}, {bits} {old.text}, {bits} {new.text} acq_rel acquire",
        T(f"{{{bits}, i1}}"),
    )
    found = code.here(f"extractvalue {{{bits}, i1}} {both.text}, 0", old.type)
    return code.cast("bitcast", found, value.type.elt) if value.type.is_float else found
