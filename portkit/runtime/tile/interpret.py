"""NumPy interpreter of the tile IR: the definition of what it means, and the debugger.

Programs of the grid run one after another, x fastest.  bf16 is held as f32 and rounded to nearest even after
each operation; functions such as exp are computed in f64 and rounded once; `sum` and `dot` of floats
accumulate in f64.  Masked-off lanes never touch memory; other accesses outside an array's memory are errors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from portkit.errors import KernelError
from portkit.runtime.tile import host_calls, ir
from portkit.runtime.tile.interpret_memory import Memory
from portkit.runtime.tile.interpret_ops import ATOMICS, OPS, Array, convert, from_python

_MAX_ITERATIONS = 1 << 31


def run(func: ir.Function, args: Sequence[Any], grid: Sequence[int]) -> None:
    """Run every program of the grid; arrays are changed in place.

    `args` holds, for each parameter of `func`, an array (for a pointer; its elements are reinterpreted as the
    pointer's type, so bf16 may come as uint16) or a number.  Raises KernelError, with the place, for an
    access out of bounds.
    """
    if len(args) != len(func.params):
        raise KernelError(f"kernel `{func.name}` takes {len(func.params)} arguments, {len(args)} were given")
    memory = Memory(func.name, func.source)
    values: dict[ir.Value, Array] = {}
    for param, arg in zip(func.params, args, strict=True):
        if param.type.is_pointer:
            values[param] = memory.register(arg, param.name)
        else:
            values[param] = from_python(arg, param.type)
    sizes = tuple(int(n) for n in grid) + (1,) * (3 - len(grid))
    with np.errstate(all="ignore"):
        for z in range(sizes[2]):
            for y in range(sizes[1]):
                for x in range(sizes[0]):
                    _Program(memory, values, (x, y, z), sizes).block(func.body)


class _Program:
    """One program of the grid: its values, and the walk over operations."""

    def __init__(
        self, memory: Memory, values: dict[ir.Value, Array], ids: tuple[int, ...], grid: tuple[int, ...]
    ) -> None:
        self.memory = memory
        self.values = dict(values)
        self.ids = ids
        self.grid = grid

    def block(self, block: ir.Block) -> list[Array]:
        """Run the operations of a block; gives the operands of its terminator."""
        for op in block.ops:
            operands = [self.values[v] for v in op.operands]
            if op.opcode in ("yield", "return"):
                return operands
            results = self.op(op, operands)
            for result, value in zip(op.results, results, strict=True):
                self.values[result] = value
        return []

    def op(self, op: ir.Op, operands: list[Array]) -> Sequence[Array]:
        """Run one operation; gives its results."""
        if op.opcode == "bitcast" and op.operands[0].type.is_pointer != op.result.type.is_pointer:
            turn = self.memory.address if op.operands[0].type.is_pointer else self.memory.pointer
            return [turn(np.asarray(operands[0]))]
        if op.opcode in OPS:
            return [OPS[op.opcode](op, operands)]
        if op.opcode in ATOMICS:
            return self.atomic(op, operands)
        method = getattr(self, f"_{op.opcode}", None)
        assert method is not None, op.opcode
        return method(op, operands)  # type: ignore[no-any-return]

    def _program_id(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        return [np.int32(self.ids[_axis(op)])]

    def _num_programs(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        return [np.int32(self.grid[_axis(op)])]

    def _load(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        mask = operands[1] if op.attrs["has_mask"] else None
        loaded = self.memory.read(op, operands[0], mask)
        if op.attrs["has_other"]:
            loaded = np.where(operands[1], loaded, operands[2])
        return [loaded]

    def _store(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        self.memory.write(op, operands[0], operands[1], operands[2] if op.attrs["has_mask"] else None)
        return []

    def atomic(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        """Update memory lane by lane, in order (lanes may name one address); gives what was there."""
        pointer, *values = (np.asarray(v) for v in operands)
        mask = values.pop() if op.attrs.get("has_mask") else np.asarray(True)
        mask = np.broadcast_to(mask, pointer.shape)
        before = np.zeros(pointer.shape, values[0].dtype)
        update = ATOMICS[op.opcode]
        for lane in np.ndindex(pointer.shape):
            if mask[lane]:
                where = np.asarray(pointer[lane])
                before[lane] = self.memory.read(op, where, None)
                after = update(before[lane], *(v[lane] for v in values))
                self.memory.write(op, where, convert(after, op.operands[1].type.dtype), None)
        return [before]

    def _for(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        lower, upper, step = (int(v) for v in operands[:3])
        carried = operands[3:]
        if step <= 0:
            raise self.memory.fault(op, f"the loop's step is {step}, not positive")
        body = op.regions[0]
        for index in range(lower, upper, step):
            first = from_python(index, body.args[0].type)
            self.values.update(zip(body.args, [first, *carried], strict=True))
            carried = self.block(body)
        return carried

    def _while(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        test, body = op.regions
        for _ in range(_MAX_ITERATIONS):
            self.values.update(zip(test.args, operands, strict=True))
            go_on, *operands = self.block(test)
            if not bool(go_on):
                return operands
            self.values.update(zip(body.args, operands, strict=True))
            operands = self.block(body)
        raise self.memory.fault(op, f"the loop did not end in {_MAX_ITERATIONS} iterations")

    def _map(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        shape = op.operands[0].type.shape
        region = op.regions[0]
        found: list[Array] = []
        for index in np.ndindex(shape):
            self.values.update(zip(region.args, (np.asarray(v)[index] for v in operands), strict=True))
            results = self.block(region)
            found = found or [np.zeros(shape, np.asarray(r).dtype) for r in results]
            for array, result in zip(found, results, strict=True):
                array[index] = result
        return found

    def _print(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        scalars: tuple[int, ...] = op.attrs["scalars"]  # type: ignore[assignment]
        values = [
            np.asarray(v).reshape(() if s else np.shape(v)) for v, s in zip(operands, scalars, strict=True)
        ]
        sys.stdout.write(host_calls.shown(str(op.attrs["prefix"]), bool(op.attrs["hex"]), values, self.ids))
        return []

    def _assert(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        if not bool(operands[0]):
            texts = str(op.attrs["message"]), str(op.attrs["place"])
            raise host_calls.failed(*texts, self.memory.kernel, self.ids)
        return []

    def _if(self, op: ir.Op, operands: list[Array]) -> list[Array]:
        return self.block(op.regions[0 if bool(operands[0]) else 1])


def _axis(op: ir.Op) -> int:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return axis
