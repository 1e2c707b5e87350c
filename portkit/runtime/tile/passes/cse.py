"""Common subexpressions: equal pure operations, and equal loads with no write between them, are one."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes._rewrite import EFFECTS, Rewriter, is_pure


def run(func: ir.Function) -> ir.Function:
    """The function with repeated operations removed."""
    return _Cse().function(func)


class _Cse(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.known: ChainMap[Any, ir.Op] = ChainMap()
        self.memory = 0  # counts writes

    def block(self, block: ir.Block) -> ir.Block:
        self.known = self.known.new_child()
        new = super().block(block)
        self.known = self.known.parents
        return new

    def op(self, op: ir.Op, out: ir.Block) -> None:
        writes = op.opcode in EFFECTS or any(o.opcode in EFFECTS for r in op.regions for o in ir.walk(r))
        if writes:
            self.memory += 1
        if not is_pure(op) and op.opcode != "load":
            self.copy(op, out)
            if writes:
                self.memory += 1
            return
        version = self.memory if op.opcode == "load" else -1
        operands = tuple(id(v) for v in self.operands(op))
        attrs = tuple(sorted((k, type(v).__name__, repr(v)) for k, v in op.attrs.items()))
        key = (op.opcode, operands, attrs, tuple(r.type for r in op.results), version)
        twin = self.known.get(key)
        if twin is None:
            self.known[key] = self.copy(op, out)
        else:
            self.values.update(zip(op.results, twin.results, strict=True))
