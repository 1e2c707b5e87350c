"""Loop-invariant code: pure operations whose operands don't change in a loop stand before it."""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes._rewrite import Rewriter, is_pure


def run(func: ir.Function) -> ir.Function:
    """The function with invariant operations moved out of loops."""
    return _Invariant().function(func)


class _Invariant(Rewriter):
    def op(self, op: ir.Op, out: ir.Block) -> None:
        new = self.copy(op, out)
        if op.opcode not in ("for", "while"):
            return
        out.ops.pop()
        inner: set[ir.Value] = set()
        for region in new.regions:
            inner.update(region.args)
            inner.update(r for o in ir.walk(region) for r in o.results)
            inner.update(a for o in ir.walk(region) for r in o.regions for a in r.args)
        for region in new.regions:
            stay: list[ir.Op] = []
            for o in region.ops:
                if is_pure(o) and o.opcode not in ("dot", "reduce") and not inner.intersection(o.operands):
                    out.ops.append(o)
                    inner.difference_update(o.results)
                else:
                    stay.append(o)
            region.ops[:] = stay
        out.ops.append(new)
