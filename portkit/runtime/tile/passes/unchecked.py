"""Without checks: assertions are left out, and what was computed for them alone is dead code."""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes._rewrite import Rewriter


def run(func: ir.Function) -> ir.Function:
    """The function without assertions."""
    return _Unchecked().function(func)


class _Unchecked(Rewriter):
    def op(self, op: ir.Op, out: ir.Block) -> None:
        if op.opcode != "assert":
            self.copy(op, out)
