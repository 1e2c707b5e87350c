"""Decides which tiles are kept in buffers: the rest is computed again wherever it is needed.

A tile is kept when a store may change what it was loaded from before it is used, when it is costly and used
in more than one loop nest, or when it is used by an operation that needs it in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import ONE, ZERO, Analysis, source_dims
from portkit.runtime.tile.lower.alias import WRITES, Aliases

COSTLY = 8.0  # in units of one multiplication: from here on computing twice is dearer than keeping
DEEPEST = 64  # operations from one kept tile to the next
COSTS = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "tanh", "erf", "sigmoid"), 12.0),
    **dict.fromkeys(("sin", "cos"), 40.0),
    **dict.fromkeys(("sqrt", "rsqrt", "div"), 5.0),
    **dict.fromkeys(("idiv", "irem"), 10.0),
    "frem": 60.0,
    **dict.fromkeys(
        ("const", "arange", "splat", "broadcast", "expand_dims", "trans", "reshape", "slice"), 0.0
    ),
}
REGIONS = frozenset({"for", "while", "if", "map"})
ROOTS = frozenset({"store", *ir.ATOMICS, "reduce", "dot", "yield", *ir.HOST_CALLS, *REGIONS})


@dataclass(frozen=True)
class Use:
    """A loop nest that a value is used in, as far as it can be told before they are formed."""

    block: int
    stage: int
    shape: tuple[int, ...]


class Planner:
    """Walks a function once forwards (stages, costs) and once backwards (uses, decisions)."""

    def __init__(self, func: ir.Function, analysis: Analysis, aliases: Aliases) -> None:
        self.func = func
        self.analysis = analysis
        self.aliases = aliases
        self.kept: set[ir.Value] = set()
        self.spans: dict[ir.Op, tuple[int, int]] = {}
        self.blocks: dict[ir.Op, tuple[ir.Block, ...]] = {}
        self.loops: dict[ir.Block, ir.Op] = {}
        self.stage: dict[ir.Value, int] = {}
        self.root_stage: dict[ir.Op, int] = {}
        self.cost: dict[ir.Value, float] = {}
        self.consumers: dict[ir.Value, list[ir.Op]] = {}
        self.depth: dict[ir.Value, int] = {}
        self.clock = 0
        self.barrier = 0

    def run(self) -> set[ir.Value]:
        """The values to keep."""
        self._forward(self.func.body, (self.func.body,))
        self._hazards()
        uses: dict[ir.Value, set[Use]] = {}
        for op in reversed(list(self.func.walk())):
            for value in op.results:
                if value.type.is_tile and op.opcode not in ROOTS:
                    uses[value] = self._uses(value, uses)
                    if self._pays(op, value, uses[value]):
                        self.kept.add(value)
        return self.kept

    # --- forwards -------------------------------------------------------------------------------------

    def _forward(self, block: ir.Block, chain: tuple[ir.Block, ...]) -> None:
        for op in block.ops:
            start = self.clock
            self.clock += 1
            self.blocks[op] = chain
            for value in op.operands:
                self.consumers.setdefault(value, []).append(op)
            stage = max((self.stage.get(v, 0) for v in op.operands), default=0)
            if op.opcode in ROOTS:
                stage = max(stage, self.barrier)
                self.root_stage[op] = stage
            for region in op.regions:
                self.barrier += 1000
                self.loops[region] = op
                self._forward(region, (*chain, region))
            if op.opcode in REGIONS or op.opcode == "dot" or op.opcode in ir.ATOMICS:
                self.barrier = stage = max(self.barrier, stage) + 1000
            if op.opcode == "reduce":
                stage += 1
            self._limit_depth(op)
            for value in op.results:
                self.stage[value] = stage
                self.cost[value] = self._cost(op)
            self.spans[op] = (start, self.clock)

    def _limit_depth(self, op: ir.Op) -> None:
        """Keep a value of a long chain now and then: virtual ones are computed by recursion."""
        if op.opcode in ROOTS or len(op.results) != 1 or not op.result.type.is_tile:
            return
        depth = 1 + max((self.depth.get(v, 0) for v in op.operands), default=0)
        if depth >= DEEPEST:
            self.kept.add(op.result)
            depth = 0
        self.depth[op.result] = depth

    def _cost(self, op: ir.Op) -> float:
        if op.opcode in ROOTS:
            return 0.0
        if op.opcode == "broadcast":  # what is spread can be kept itself, which is smaller
            source = op.operands[0]
            return self.cost.get(source, 0.0) * source.type.numel / op.result.type.numel
        own = COSTS.get(op.opcode, 1.0)
        if op.opcode == "load" and op.result.type.is_tile and not self._contiguous(op):
            own = 10.0
        return min(own + sum(self.cost.get(v, 0.0) for v in op.operands if v.type.is_tile), 1e6)

    def _contiguous(self, op: ir.Op) -> bool:
        form = self.analysis.of(op.operands[0])
        shape = op.operands[0].type.shape
        varying = [k for k in range(len(shape)) if shape[k] > 1 and form.varies(k)]
        return not varying or any(form.strides[k] == ONE and form.regular(k) for k in varying)

    # --- memory ---------------------------------------------------------------------------------------

    def _hazards(self) -> None:
        ops = list(self.func.walk())
        writes = [op for op in ops if op.opcode in WRITES]
        loads = [op for op in ops if op.opcode == "load" and op.result.type.is_tile]
        for load in loads:
            rivals = [w for w in writes if self.aliases.may_alias(w, load)]
            if rivals and any(self._between(load, user, rivals) for user in self.roots_using(load.result)):
                self.kept.add(load.result)

    def roots_using(self, value: ir.Value) -> set[ir.Op]:
        """Roots that a virtual value reaches through others."""
        found: set[ir.Op] = set()
        seen: set[ir.Value] = set()
        todo = [value]
        while todo:
            for op in self.consumers.get(todo.pop(), []):
                if op.opcode in ROOTS:
                    found.add(op)
                else:
                    fresh = [r for r in op.results if r not in seen]
                    seen.update(fresh)
                    todo += fresh
        return found

    def _between(self, load: ir.Op, user: ir.Op, rivals: list[ir.Op]) -> bool:
        """Whether a rival write may run after the load and before (or while) the user runs."""
        start = self.spans[load][1]
        end = self.spans[user][1]
        for block in self.blocks[user]:
            loop = self.loops.get(block)
            if loop is not None and loop.opcode != "if" and block not in self.blocks[load]:
                end = max(end, self.spans[loop][1])
        for write in rivals:
            if start <= self.spans[write][0] < end:
                lockstep = write is user and self.aliases.same_address(load, write)
                if not lockstep:
                    return True
        return False

    # --- backwards ------------------------------------------------------------------------------------

    def _uses(self, value: ir.Value, uses: dict[ir.Value, set[Use]]) -> set[Use]:
        found: set[Use] = set()
        for op in self.consumers.get(value, []):
            if op.opcode in ROOTS:
                found.add(Use(id(self.blocks[op][-1]), self.root_stage[op], self._shape(op, value)))
                continue
            for result in op.results:
                if result in self.kept:
                    found.add(Use(id(self.blocks[op][-1]), self.stage[result], result.type.shape))
                elif result.type.is_tile:
                    found |= uses.get(result, set())
        return found

    def _shape(self, op: ir.Op, value: ir.Value) -> tuple[int, ...]:
        return op.operands[0].type.shape if op.opcode in ("store", "reduce") else value.type.shape

    def _pays(self, op: ir.Op, value: ir.Value, uses: set[Use]) -> bool:
        if not uses or source_dims(op) is not None or op.opcode in ("const", "arange"):
            return self._reshaped(value)
        if self._reshaped(value):
            return True
        if self.cost[value] < COSTLY:
            return False
        deeper = any(use.block != id(self.blocks[op][-1]) for use in uses)
        return len(uses) > 1 or deeper or self._repeated(value, uses)

    def _reshaped(self, value: ir.Value) -> bool:
        """Whether an operation that truly reshapes takes the value: it needs it in memory."""
        return any(
            op.opcode == "slice"
            or (op.opcode == "dot" and len(op.result.type.shape) == 3)  # it takes their parts
            or (op.opcode == "reshape" and source_dims(op) is None)
            for op in self.consumers.get(value, [])
        )

    def _repeated(self, value: ir.Value, uses: set[Use]) -> bool:
        """Whether a loop over a bigger tile would compute each element once more for every row."""
        inner = value.type.shape[-1]
        return any(_count(use.shape) > value.type.numel and inner > 1 for use in uses) and not self._row(
            value
        )

    def _row(self, value: ir.Value) -> bool:
        # [n, 1] tiles rise out of the inner loop: each element is computed once for its row
        return value.type.shape[-1] == 1 or self._only_outer(value)

    def _only_outer(self, value: ir.Value) -> bool:
        return all(
            op.opcode == "expand_dims" and int(op.attrs["axis"]) == len(value.type.shape)  # type: ignore[arg-type]
            for op in self.consumers.get(value, [])
        )


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


__all__ = ["ROOTS", "ZERO", "Planner"]
