"""Dead code: operations whose results nobody needs, and values that loops carry round for nothing."""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes._rewrite import CONTROL, EFFECTS, ENDS, Rewriter


def run(func: ir.Function) -> ir.Function:
    """The function without dead operations."""
    live = _live(func)
    return _Dce(live).function(func)


def _live(func: ir.Function) -> set[object]:
    """Operations and values that matter."""
    live: set[object] = set()
    ops = list(func.walk())
    inside = {op: [o for r in op.regions for o in ir.walk(r)] for op in ops if op.regions}
    changed = True
    while changed:
        before = len(live)
        for op in reversed(ops):
            _mark(op, inside, live)
        changed = len(live) != before
    return live


def _mark(op: ir.Op, inside: dict[ir.Op, list[ir.Op]], live: set[object]) -> None:
    if op.opcode in ENDS:
        return  # what is yielded is marked by the operation around
    if op.opcode in EFFECTS or op.opcode == "while":
        needed = True
    else:
        needed = any(r in live for r in op.results) or any(
            o in live and o.opcode not in ENDS for o in inside.get(op, [])
        )
    if not needed:
        return
    live.add(op)
    if op.opcode not in CONTROL:
        live.update(op.operands)
    elif op.opcode == "for":
        live.update(op.operands[:3])
        _carried(op, live)
    elif op.opcode == "if":
        live.add(op.operands[0])
        for k, result in enumerate(op.results):
            if result in live:
                live.update(region.ops[-1].operands[k] for region in op.regions)
    else:
        live.update(op.operands)
        for region in op.regions:
            live.update(region.ops[-1].operands)


def _carried(op: ir.Op, live: set[object]) -> None:
    region = op.regions[0]
    for k, result in enumerate(op.results):
        if result in live or region.args[1 + k] in live:
            live.update((op.operands[3 + k], region.ops[-1].operands[k], region.args[1 + k]))


class _Dce(Rewriter):
    def __init__(self, live: set[object]) -> None:
        super().__init__()
        self.live = live

    def op(self, op: ir.Op, out: ir.Block) -> None:
        if op.opcode in ENDS:
            self.copy(op, out)
        elif op not in self.live:
            return
        elif op.opcode in ("for", "if") and op.results:
            self._trim(op, out)
        else:
            self.copy(op, out)

    def _trim(self, op: ir.Op, out: ir.Block) -> None:
        """Control flow without the results that nobody needs."""
        loop = op.opcode == "for"
        keep = [
            k
            for k, result in enumerate(op.results)
            if result in self.live or (loop and op.regions[0].args[1 + k] in self.live)
        ]
        head = 3 if loop else 1
        operands = op.operands[:head] + ([op.operands[head + k] for k in keep] if loop else [])
        new = ir.Op(op.opcode, [self.values[v] for v in operands], [], dict(op.attrs), [], op.loc)
        new.results = [ir.Value(op.results[k].type, op.results[k].name, new) for k in keep]
        for region in op.regions:
            args = [region.args[0], *(region.args[1 + k] for k in keep)] if loop else region.args
            block = ir.Block([self.argument(a) for a in args])
            for inner in region.ops[:-1]:
                self.op(inner, block)
            end = region.ops[-1]
            values = [self.values[end.operands[k]] for k in keep]
            block.ops.append(ir.Op("yield", values, [], dict(end.attrs), [], end.loc))
            new.regions.append(block)
        self.values.update(zip([op.results[k] for k in keep], new.results, strict=True))
        out.ops.append(new)
