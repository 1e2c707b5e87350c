"""Atomic operations: one lane after the other; masked-off lanes work on a dummy of the thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portkit.runtime.tile import ir
from portkit.runtime.tile.lower.elements import each
from portkit.runtime.tile.lower.emit import I1, PTR, Code, T, V
from portkit.runtime.tile.lower.place import Place

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program


def lower_atomic(program: Program, op: ir.Op) -> None:
    """An atomic operation on a scalar or, element by element, on a tile."""
    evaluator = program.evaluator
    shape = op.operands[0].type.shape
    if not shape:
        args = [program.context.scalars[v] for v in op.operands]
        program.context.scalars[op.result] = _one(program, op, args)
        return
    used = any(op.result in other.operands for other in program.func.walk())
    buffer = program.buffer(op.result) if used else None

    def element(place: Place) -> None:
        old = _one(program, op, [evaluator.at(v, place) for v in op.operands])
        if buffer is not None:
            evaluator.memory.write(buffer, place, old)

    each(program, shape, element)
    if buffer is not None:
        program.context.buffers[op.result] = buffer


def _one(program: Program, op: ir.Op, args: list[V]) -> V:
    code, memory = program.code, program.evaluator.memory
    dtype = op.operands[0].type.dtype
    pointer, value = args[0], memory.pack(dtype, args[1])
    if op.opcode == "atomic_cas":
        return memory.unpack(dtype, _exchange(program, pointer, value, memory.pack(dtype, args[2])))
    mask = args[2] if len(args) > 2 else None
    if mask is not None:
        pointer = code.op("select i1 {}, ptr {}, ptr {}", PTR, mask, pointer, program.context.dummy)
    kind = op.opcode.removeprefix("atomic_")
    if dtype.is_float and dtype.bits == 16 and kind != "xchg":
        old = _spin(program, kind, dtype, pointer, args[1])
    else:
        name = _instruction(kind, dtype)
        text = f"atomicrmw {name} ptr {pointer.text}, {value.type} {value.text} acq_rel"
        old = memory.unpack(dtype, code.here(text, value.type))
    return old if mask is None else code.select(mask, old, code.const(0, old.type))


def _instruction(kind: str, dtype: ir.DType) -> str:
    """The name that LLVM has for it."""
    if kind in ("add", "max", "min") and dtype.is_float:
        return f"f{kind}"
    return f"u{kind}" if kind in ("max", "min") and not dtype.is_signed else kind


def _exchange(program: Program, pointer: V, expected: V, value: V) -> V:
    """Compare and exchange, which LLVM does on integers only; gives what was there."""
    code = program.code
    bits = f"i{value.type.bits}"
    old, new = (code.cast("bitcast", v, bits) if v.type.is_float else v for v in (expected, value))
    found = code.here(f"extractvalue {{{bits}, i1}} {_compare(code, pointer, old, new).text}, 0", old.type)
    return code.cast("bitcast", found, value.type.elt) if value.type.is_float else found


def _compare(code: Code, pointer: V, old: V, new: V) -> V:
    return code.here(
        f"cmpxchg ptr {pointer.text}, {old.type} {old.text}, {new.type} {new.text} acq_rel acquire",
        T(f"{{{old.type}, i1}}"),
    )


def _spin(program: Program, kind: str, dtype: ir.DType, pointer: V, value: V) -> V:
    """A 16-bit float: computed in f32, and written unless memory has changed meanwhile."""
    code, evaluator = program.code, program.evaluator
    bits = T("i16")
    first = code.here(f"load atomic i16, ptr {pointer.text} monotonic, align 2", bits)
    before = code.scopes[-1].block
    start = code.new_block("again")
    before.end = f"br label %{start.label}"
    with code.scope(start), code.barrier():
        old = V(code.fresh("%old"), bits, code.depth)
        wide = evaluator.memory.unpack(dtype, old)
        if kind == "add":
            changed = code.bin("fadd", wide, value)
        else:
            changed = evaluator.elementwise.extreme(kind, dtype, wide, value)
        pair = _compare(code, pointer, old, evaluator.memory.pack(dtype, changed))
        found = code.here(f"extractvalue {{i16, i1}} {pair.text}, 0", bits)
        done = code.here(f"extractvalue {{i16, i1}} {pair.text}, 1", I1)
        latch = code.scopes[-1].block
        start.lines.insert(
            0,
            f"  {old.text} = phi i16 [{first.text}, %{before.label}], [{found.text}, %{latch.label}]",
        )
        end = code.new_block("written")
        latch.end = f"br i1 {done.text}, label %{end.label}, label %{start.label}"
    code.scopes[-1].block = end
    return evaluator.memory.unpack(dtype, V(old.text, bits, code.depth))
