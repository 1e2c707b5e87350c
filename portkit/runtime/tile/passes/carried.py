"""Index and pointer tiles that a loop moves by a scalar: only the distance is carried, the tile is computed.

   p = for … (p = start): … yield addptr(p, splat(step))
→  d = for … (d = 0): p = addptr(start, splat(d)); … yield d + step
"""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes._rewrite import Rewriter, emit
from portkit.runtime.tile.passes.fold import constant, scalar_of


def run(func: ir.Function) -> ir.Function:
    """The function with such tiles replaced by scalars."""
    return _Carried().function(func)


class _Carried(Rewriter):
    def op(self, op: ir.Op, out: ir.Block) -> None:
        chains = _moved(op) if op.opcode == "for" else {}
        if not chains:
            self.copy(op, out)
            return
        long = ir.Type(ir.I64)
        zero = emit(out, op, "const", [], long, value=0)
        starts = self.operands(op)
        inits = [zero if k in chains else v for k, v in enumerate(starts[3:])]
        new = ir.Op("for", [*starts[:3], *inits], [], dict(op.attrs), [], op.loc)
        new.results = [
            ir.Value(long if k in chains else r.type, r.name, new) for k, r in enumerate(op.results)
        ]
        new.regions = [self._body(op, chains, starts[3:])]
        out.ops.append(new)
        for k, result in enumerate(op.results):
            value = new.results[k]
            self.values[result] = _at(out, op, starts[3 + k], value) if k in chains else value

    def _body(self, op: ir.Op, chains: dict[int, list[ir.Value]], starts: list[ir.Value]) -> ir.Block:
        region, long = op.regions[0], ir.Type(ir.I64)
        block = ir.Block([self.argument(region.args[0])])
        distances: dict[int, ir.Value] = {}
        for k, arg in enumerate(region.args[1:]):
            if k not in chains:
                block.args.append(self.argument(arg))
                continue
            distances[k] = ir.Value(long, arg.name)
            block.args.append(distances[k])
        for k, arg in enumerate(region.args[1:]):
            if k in chains:
                self.values[arg] = _at(block, op, starts[k], distances[k])
        for inner in region.ops[:-1]:
            self.op(inner, block)
        end = region.ops[-1]
        values = self.operands(end)
        for k, steps in chains.items():
            total = distances[k]
            for step in steps:
                number = self.values[step]
                if number.type.is_tile:
                    scalar = scalar_of(number)
                    fixed = constant(number)
                    if scalar is None:
                        assert fixed is not None
                        scalar = emit(block, op, "const", [], number.type.with_shape(()), value=fixed)
                    number = scalar
                if number.type != long:
                    number = emit(block, op, "cast", [number], long)
                total = emit(block, op, "add", [total, number], long)
            values[k] = total
        block.ops.append(ir.Op("yield", values, [], dict(end.attrs), [], end.loc))
        return block


def _at(out: ir.Block, like: ir.Op, start: ir.Value, distance: ir.Value) -> ir.Value:
    """`start` moved by a distance."""
    kind = start.type
    if kind.is_pointer:
        offset = emit(out, like, "splat", [distance], kind.with_element(ir.I64)) if kind.is_tile else distance
        return emit(out, like, "addptr", [start, offset], kind)
    narrow = distance
    if kind.element != ir.I64:
        narrow = emit(out, like, "cast", [distance], kind.with_shape(()))
    return emit(out, like, "add", [start, emit(out, like, "splat", [narrow], kind)], kind)


def _moved(op: ir.Op) -> dict[int, list[ir.Value]]:
    """The carried tiles that are only moved, with the (uniform) steps that are added to them."""
    region = op.regions[0]
    found: dict[int, list[ir.Value]] = {}
    for k, result in enumerate(op.results):
        kind = result.type
        wanted = kind.is_tile and (kind.is_pointer or kind.element in (ir.I32, ir.I64))
        if wanted and (steps := _steps(region.ops[-1].operands[k], region.args[1 + k])):
            found[k] = steps
    return found


def _steps(value: ir.Value, start: ir.Value) -> list[ir.Value] | None:
    """What is added to `start` to give `value`; None where that isn't all that happens."""
    steps: list[ir.Value] = []
    while value is not start:
        op = value.owner
        if op is None or op.opcode not in ("addptr", "add"):
            return None
        base, step = op.operands
        if op.opcode == "add" and _uniform(base) and not _uniform(step):
            base, step = step, base
        element = step.type.element
        if not _uniform(step) or not isinstance(element, ir.DType) or not element.is_signed:
            return None
        steps.append(step)
        value = base
    return steps


def _uniform(value: ir.Value) -> bool:
    return constant(value) is not None or scalar_of(value) is not None
