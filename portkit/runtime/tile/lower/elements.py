"""Operations done element by element: a loop over a tile, whose body sees one place of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from portkit.runtime.tile import host_calls, ir
from portkit.runtime.tile.interpret_ops import numpy_dtype
from portkit.runtime.tile.lower.emit import PTR, V
from portkit.runtime.tile.lower.place import Index, Place
from portkit.runtime.tile.lower.storage import Buffer, dense, element_bytes, kept_element

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program


def each(program: Program, shape: Sequence[int], body: Callable[[Place], None]) -> None:
    """Loops over the places of a tile, in order."""
    code = program.code
    program.evaluator.lanes = 0

    def nest(dims: list[int], place: Place) -> None:
        if not dims:
            body(place)
            return

        def inside(index: V, _: list[V]) -> list[V]:
            nest(dims[1:], (*place, Index(index, False, dims[0])))
            return []

        code.loop(code.i64(0), code.i64(shape[dims[0]]), 1, [], inside)

    with code.scope():
        nest(list(range(len(shape))), ())


def lower_map(program: Program, op: ir.Op) -> None:
    """The region of a `map`, run for each element."""
    context, evaluator, region = program.context, program.evaluator, op.regions[0]
    program.flush()
    buffers = [program.buffer(result) for result in op.results]

    def element(place: Place) -> None:
        with program.code.barrier():
            for arg, operand in zip(region.args, op.operands, strict=True):
                context.scalars[arg] = evaluator.at(operand, place)
            program.block(region)
            for value, buffer in zip(region.ops[-1].operands, buffers, strict=True):
                evaluator.memory.write(buffer, place, context.scalars[value])

    each(program, op.operands[0].type.shape, element)
    context.buffers.update(zip(op.results, buffers, strict=True))


def lower_print(program: Program, op: ir.Op) -> None:
    """Tiles put into memory one after the other, for the host to print."""
    evaluator = program.evaluator
    program.flush()
    pointers, tiles = [], []
    for value, scalar in zip(op.operands, op.attrs["scalars"], strict=True):  # type: ignore[arg-type]
        shape, element = value.type.shape, kept_element(value.type.element)
        assert isinstance(element, ir.DType)
        where = program.scratch(value.type.numel * element_bytes(element))
        buffer = Buffer(where, element, shape, dense(shape))

        def element_of(place: Place, value: ir.Value = value, buffer: Buffer = buffer) -> None:
            evaluator.memory.write(buffer, place, evaluator.at(value, place))

        each(program, shape, element_of)
        pointers.append(where)
        own, stored = (np.dtype(numpy_dtype(t)).str for t in (value.type.dtype, element))
        tiles.append((own, [] if scalar else list(shape), stored))
    about = {"prefix": op.attrs["prefix"], "hex": op.attrs["hex"], "tiles": tiles}
    _call_host(program, json.dumps(about), pointers)


def lower_assert(program: Program, op: ir.Op) -> None:
    """Tells the host, and ends the work of this thread, where the condition does not hold."""
    code = program.code
    program.flush()
    condition = program.context.scalars[op.operands[0]]
    before, wrong, right = code.scopes[-1].block, code.new_block("failed"), code.new_block("holds")
    before.end = f"br i1 {condition.text}, label %{right.label}, label %{wrong.label}"
    about = {"message": op.attrs["message"], "place": op.attrs["place"], "kernel": program.func.name}
    with code.scope(wrong), code.barrier():
        _call_host(program, json.dumps(about), [])
        last = code.scopes[-1].block
    last.end = "ret void"
    program.leaving.append(last)
    code.scopes[-1].block = right


def _call_host(program: Program, text: str, pointers: Sequence[V]) -> None:
    code = program.code
    name = f"@text{len(program.globals)}"
    program.globals.append(host_calls.constant(name, text))
    block = program.scratch(8 * (3 + len(pointers)))
    for axis in range(3):
        where = program.grid_id(axis)
        code.line(f"store i64 {code.cast('zext', where, 'i64').text}, ptr {_slot(program, block, axis).text}")
    for number, pointer in enumerate(pointers):
        code.line(f"store ptr {pointer.text}, ptr {_slot(program, block, 3 + number).text}")
    code.declarations.add(f"declare void @{host_calls.SYMBOL}(ptr, ptr)")
    code.line(f"call void @{host_calls.SYMBOL}(ptr {name}, ptr {block.text})")


def _slot(program: Program, block: V, number: int) -> V:
    return program.code.at(0, f"getelementptr i64, ptr {block.text}, i64 {number}", PTR)
