"""A whole kernel: the loop over block programs, scalars, control flow, and the groups of tile operations."""

from __future__ import annotations

from collections.abc import Callable

from portkit.errors import KernelError
from portkit.runtime.targets import Target
from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import Dims, source_dims
from portkit.runtime.tile.lower import elements
from portkit.runtime.tile.lower.alias import Aliases
from portkit.runtime.tile.lower.control import Control
from portkit.runtime.tile.lower.elementwise import memory_element, register
from portkit.runtime.tile.lower.emit import I32, I64, PTR, Block, Code, T, V
from portkit.runtime.tile.lower.evaluate import Evaluator
from portkit.runtime.tile.lower.group import Grouper, Root
from portkit.runtime.tile.lower.loops import Nest
from portkit.runtime.tile.lower.place import Context
from portkit.runtime.tile.lower.plan import Planner
from portkit.runtime.tile.lower.storage import (
    Arena,
    Buffer,
    dense,
    element_bytes,
    kept_element,
    padded,
)

ABI = "ptr noalias nocapture readonly %args, i64 %begin, i64 %end, ptr noalias align 64 %scratch"


_BUFFERED = frozenset({"reduce", "dot", "for", "while", "if", "map", *ir.ATOMICS})  # results live in buffers


class Program:
    """Lowers one function for a target."""

    def __init__(self, func: ir.Function, target: Target) -> None:
        self.func = func
        self.code = Code()
        self.context = Context(self.code, target)
        self.arena = Arena()
        self.aliases = Aliases(func, self.context.analysis)
        for op in func.walk():  # in order, so that long chains don't recurse deeply
            for value in op.results:
                if value.type.is_tile and (value.type.is_pointer or value.type.dtype.is_int):
                    self.context.analysis.of(value)
        self.planner = Planner(func, self.context.analysis, self.aliases)
        self.kept = self.planner.run()
        self.targets: dict[ir.Value, Buffer] = {}  # where results of dot go
        self.grouper = Grouper(self.aliases, self._stops())
        self.evaluator = Evaluator(self.context)
        self.control = Control(self)
        self.pending: list[Root] = []
        self.ids: dict[str, V] = {}
        self.at_end: list[str] = []  # lines for the end of the function
        self.leaving: list[Block] = []  # blocks that end it early
        self.globals: list[str] = []  # definitions around it

    def _stops(self) -> set[ir.Value]:
        """Values that live in buffers: kept ones, and results of operations that are not virtual."""
        stops = set(self.kept)
        for op in self.func.walk():
            if op.opcode in _BUFFERED or _reinterprets(op):
                stops.update(op.results)
        return stops

    def run(self) -> None:
        """Emits the body of the function."""
        code = self.code
        slots = {name: self._slot(k, I64) for k, name in enumerate(("gx", "gy", "gz"))}
        for k, param in enumerate(self.func.params):
            self.context.scalars[param] = self._parameter(3 + k, param)

        def program(index: V, _: list[V]) -> list[V]:
            self.ids = {**slots, "id": index}
            with code.barrier():
                self.block(self.func.body)
            return []

        code.loop(V("%begin", I64), V("%end", I64), 1, [], program)
        for line in self.at_end:
            code.line(line)
            for block in self.leaving:
                block.lines.append(f"  {line}")
        code.scopes[-1].block.end = "ret void"

    def _slot(self, k: int, t: T) -> V:
        where = self.code.gep("i64", V("%args", PTR), self.code.i64(k))
        return self.code.here(f"load {t}, ptr {where.text}", t)

    def _parameter(self, k: int, param: ir.Value) -> V:
        element = param.type.element
        if isinstance(element, ir.Pointer):
            return self._slot(k, PTR)
        if element.is_bool or (element.is_float and element.bits == 16):
            return self.evaluator.memory.unpack(element, self._slot(k, T("i8" if element.is_bool else "i16")))
        return self._slot(k, register(element))

    # --- blocks ---------------------------------------------------------------------------------------

    def block(self, block: ir.Block) -> None:
        """Emits the operations of a block, but for its terminator."""
        for op in block.ops:
            if op.opcode in ("yield", "return"):
                break
            self.operation(op)
        self.flush()

    def operation(self, op: ir.Op) -> None:
        special: dict[str, Callable[[ir.Op], None]] = {
            "reduce": self._reduce,
            "dot": self._dot,
            "for": self.control.for_loop,
            "while": self.control.while_loop,
            "if": self.control.branch,
            **dict.fromkeys(ir.ATOMICS, self._atomic),
            "store": self._store,
            "map": lambda op: elements.lower_map(self, op),
            "print": lambda op: elements.lower_print(self, op),
            "assert": lambda op: elements.lower_assert(self, op),
        }
        if op.opcode in special:
            special[op.opcode](op)
        elif op.opcode == "slice":
            self._slice(op)
        elif not op.result.type.is_tile:
            self._scalar(op)
        elif _reinterprets(op):
            self._reshape(op)
        elif op.result in self.kept:
            self.add(Root("keep", op.result, op.result.type.shape, op, self.buffer(op.result), op.result))

    def add(self, root: Root) -> None:
        """Appends a root to the group that waits, after emitting that if the two can't share a loop."""
        if self.grouper.conflict(self.pending, root):
            self.flush()
        self.pending.append(root)

    def flush(self) -> None:
        """Emits the group that waits."""
        if self.pending:
            roots, self.pending = self.pending, []
            Nest(self.context, self.grouper, roots).emit()

    def buffer(self, value: ir.Value, shape: tuple[int, ...] | None = None) -> Buffer:
        """Fresh scratch memory for a tile."""
        shape = value.type.shape if shape is None else shape
        element = kept_element(value.type.element)
        strides = dense(shape) if self._is_reshaped(value) else padded(shape, 16)
        count = max(strides[0] * shape[0], 1) * element_bytes(element)
        return Buffer(self.scratch(count), element, shape, strides)

    def _is_reshaped(self, value: ir.Value) -> bool:
        return value in self.dense_values()

    def dense_values(self) -> set[ir.Value]:
        """Tiles whose memory is seen with another shape as well."""
        if not hasattr(self, "_dense"):
            self._dense = {op.operands[0] for op in self.func.walk() if op.opcode == "reshape"}
        return self._dense

    def scratch(self, count: int) -> V:
        """The address of `count` bytes of scratch."""
        offset = self.arena.take(count)
        return self.code.at(0, f"getelementptr i8, ptr %scratch, i64 {offset}", PTR)

    def _reshape(self, op: ir.Op) -> None:
        """The memory of the operand, seen with another shape."""
        self.flush()
        source = op.operands[0]
        buffer = self.context.buffers[source]
        if not buffer.is_dense:
            where = self.scratch(source.type.numel * 8)
            buffer = Buffer(where, buffer.element, buffer.shape, dense(buffer.shape))
            self.add(Root("keep", source, source.type.shape, None, buffer, None))
            self.flush()
        self.context.buffers[op.result] = buffer.reshaped(op.result.type.shape)
        self.context.views[op.result] = self.context.origin(source)

    def _slice(self, op: ir.Op) -> None:
        """A part of the operand's memory."""
        self.flush()
        source = op.operands[0]
        buffer, axis, index = self.context.buffers[source], int(op.attrs["axis"]), int(op.attrs["index"])  # type: ignore[arg-type]
        step = self.code.i64(buffer.strides[axis] * index)
        memory = self.evaluator.memory
        part = buffer.without(axis, self.code.gep(memory_element(buffer.element), buffer.pointer, step))
        if op.result.type.is_tile:
            self.context.buffers[op.result] = part
            self.context.views[op.result] = self.context.origin(source)
        else:
            self.context.scalars[op.result] = memory.read_now(part)

    def accumulate(self, loop: ir.Op, buffers: dict[int, Buffer]) -> None:
        """Lets a dot whose result a loop carries round add to the carried tile where it lies."""
        region = loop.regions[0]
        for k, buffer in buffers.items():
            arg, value = region.args[1 + k], region.ops[-1].operands[k]
            dot = value.owner
            if dot is None or dot.opcode != "dot" or dot not in region.ops:
                continue
            spans = self.planner.spans
            users = self.planner.roots_using(arg)
            leaves = self._accumulator_leaves(dot)
            origin = self.context.origin
            plain = all(v is arg and dims == (0, 1) for v, dims in leaves if origin(v) is arg)
            if plain and all(spans[user][0] <= spans[dot][0] for user in users):
                self.targets[value] = buffer

    def _accumulator_leaves(self, dot: ir.Op) -> list[tuple[ir.Value, Dims]]:
        acc = dot.operands[2]
        return self.grouper.leaves(Root("keep", acc, acc.type.shape)).kept

    # --- operations -----------------------------------------------------------------------------------

    def _waits_for(self, values: list[ir.Value]) -> bool:
        results = {root.result for root in self.pending}
        return any(v in results for v in values)

    def _scalar(self, op: ir.Op) -> None:
        context, code = self.context, self.code
        value = op.result
        if self._waits_for(op.operands):
            self.flush()
        if op.opcode == "const":
            context.scalars[value] = code.const(op.attrs["value"], register(value.type.element))  # type: ignore[arg-type]
        elif op.opcode in ("program_id", "num_programs"):
            context.scalars[value] = self._grid(op)
        elif op.opcode == "load":
            self.flush()
            args = [context.scalars[v] for v in op.operands]
            mask = args[1] if len(args) > 1 else None
            other = args[2] if len(args) > 2 else None
            context.scalars[value] = self.evaluator.memory.scalar_load(args[0], value.type.dtype, mask, other)
        elif op.opcode == "reshape" and not op.operands[0].type.is_tile:
            context.scalars[value] = context.scalars[op.operands[0]]
        elif any(v.type.is_tile for v in op.operands):
            raise KernelError(f"{op.opcode} of a tile to a scalar has no lowering", place=str(op.loc or ""))
        else:
            args = [context.scalars[v] for v in op.operands]
            context.scalars[value] = self.evaluator.elementwise.emit(op, args)

    def _grid(self, op: ir.Op) -> V:
        axis = int(op.attrs["axis"])  # type: ignore[arg-type]
        if op.opcode == "num_programs":
            return self.code.cast("trunc", self.ids[("gx", "gy", "gz")[axis]], "i32")
        return self.grid_id(axis)

    def grid_id(self, axis: int) -> V:
        """The place of the program along an axis, i32."""
        code, ids = self.code, self.ids
        quotient = ids["id"]
        for k in range(axis):
            quotient = code.bin("udiv", quotient, ids[("gx", "gy")[k]])
        if axis < 2:
            quotient = code.bin("urem", quotient, ids[("gx", "gy")[axis]])
        return code.cast("trunc", quotient, I32.elt)

    def _store(self, op: ir.Op) -> None:
        if op.operands[0].type.is_tile:
            self.add(Root("store", op.operands[1], op.operands[0].type.shape, op))
            return
        self.flush()
        memory = self.evaluator.memory
        args = [self.context.scalars[v] for v in op.operands]
        value = memory.pack(op.operands[0].type.dtype, args[1])
        memory.scalar_store(args[0], value, args[2] if len(args) > 2 else None)

    def _reduce(self, op: ir.Op) -> None:
        source, result = op.operands[0], op.result
        buffer = self.buffer(result) if result.type.is_tile else None
        self.add(Root("reduce", source, source.type.shape, op, buffer, result))

    def _dot(self, op: ir.Op) -> None:
        from portkit.runtime.tile.lower.dot import lower_dot
        from portkit.runtime.tile.lower.dot_amx import TileDot, instruction

        self.flush()
        if len(op.result.type.shape) == 3:
            self._products(op)
        elif name := instruction(op, self.context.target):
            TileDot(self, op, name).emit()
        else:
            lower_dot(self, op)

    def _products(self, op: ir.Op) -> None:
        """A row of products: one after the other, on parts of the memory of operands and result."""
        target = self.buffer(op.result)
        tiles = [*(self.context.buffers[v] for v in op.operands), target]
        kinds = [v.type.with_shape(v.type.shape[1:]) for v in (*op.operands, op.result)]

        def product(index: V, _: list[V]) -> list[V]:
            with self.code.barrier():
                values = [ir.Value(kind) for kind in kinds]
                for value, tile in zip(values, tiles, strict=True):
                    step = self.code.mul(index, self.code.i64(tile.strides[0]))
                    where = self.code.gep(memory_element(tile.element), tile.pointer, step)
                    self.context.buffers[value] = tile.without(0, where)
                    self.grouper.stops.add(value)
                one = ir.Op("dot", values[:3], [values[3]], op.attrs, [], op.loc)
                self.targets[values[3]] = self.context.buffers[values[3]]
                self._dot(one)
            return []

        with self.code.scope():
            self.code.loop(self.code.i64(0), self.code.i64(target.shape[0]), 1, [], product)
        self.context.buffers[op.result] = target

    def _atomic(self, op: ir.Op) -> None:
        from portkit.runtime.tile.lower.atomic import lower_atomic

        self.flush()
        lower_atomic(self, op)


def _reinterprets(op: ir.Op) -> bool:
    """A reshape that changes which elements are neighbours, or a part of a tile: a view of its memory."""
    if op.opcode == "slice":
        return op.result.type.is_tile
    return op.opcode == "reshape" and op.result.type.is_tile and source_dims(op) is None
