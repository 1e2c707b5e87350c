"""Control flow: `for`, `while` and `if` become blocks; scalars that go around are phis, tiles are buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portkit.runtime.tile import ir
from portkit.runtime.tile.lower.emit import I1, Block, V
from portkit.runtime.tile.lower.group import Root
from portkit.runtime.tile.lower.storage import Buffer

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program


class Control:
    """Lowers the regions of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = program.code
        self.context = program.context

    # --- for ------------------------------------------------------------------------------------------

    def for_loop(self, op: ir.Op) -> None:
        program, code, context = self.program, self.code, self.context
        program.flush()
        lower, upper, step = (context.scalars[v] for v in op.operands[:3])
        region, inits = op.regions[0], op.operands[3:]
        buffers = self._start(op, inits, region.args[1:])
        scalars = [k for k, v in enumerate(inits) if not v.type.is_tile]
        before = code.scopes[-1].block
        enter = code.here(f"icmp {self._order(step)} {lower.type} {lower.text}, {upper.text}", I1)
        start = code.new_block("for")
        before.end = ""
        with code.scope(start):
            index = V(code.fresh("%i"), lower.type, code.depth)
            phis = [V(code.fresh("%c"), context.scalars[inits[k]].type, code.depth) for k in scalars]
            context.scalars[region.args[0]] = index
            for k, phi in zip(scalars, phis, strict=True):
                context.scalars[region.args[1 + k]] = phi
            program.accumulate(op, buffers)
            outs = self._region(region, buffers)
            following = code.here(f"add {index.type} {index.text}, {step.text}", index.type)
            again = code.here(f"icmp {self._order(step)} {index.type} {following.text}, {upper.text}", I1)
            latch = code.scopes[-1].block
            entries = [(index, lower, following)]
            entries += [(p, context.scalars[inits[k]], outs[k]) for k, p in zip(scalars, phis, strict=True)]
            start.lines[:0] = [_phi(p, [(a, before), (b, latch)]) for p, a, b in entries]
            done = code.new_block("end")
            latch.end = f"br i1 {again.text}, label %{start.label}, label %{done.label}"
            code.scopes[-1].block = done
        before.end = f"br i1 {enter.text}, label %{start.label}, label %{done.label}"
        for k, result in enumerate(op.results):
            if k in buffers:
                context.buffers[result] = buffers[k]
                continue
            final = V(code.fresh("%r"), context.scalars[inits[k]].type, code.depth)
            code.line(_phi(final, [(context.scalars[inits[k]], before), (outs[k], latch)]).strip())
            context.scalars[result] = final

    def _order(self, step: V) -> str:
        return "sgt" if isinstance(step.const, int) and step.const < 0 else "slt"

    def _start(self, op: ir.Op, inits: list[ir.Value], args: list[ir.Value]) -> dict[int, Buffer]:
        """Buffers for the tiles that go around, filled with their first values."""
        program = self.program
        buffers: dict[int, Buffer] = {}
        for k, (init, arg) in enumerate(zip(inits, args, strict=True)):
            if init.type.is_tile:
                buffers[k] = program.buffer(arg)
                program.add(Root("keep", init, init.type.shape, op, buffers[k], arg))
        program.flush()
        for k, arg in enumerate(args):
            if k in buffers:
                program.grouper.stops.add(arg)
        return buffers

    def _region(self, region: ir.Block, buffers: dict[int, Buffer], skip: int = 0) -> dict[int, V]:
        """Emits a region and what it yields: tiles into their buffers; returns the scalars."""
        program, code = self.program, self.code
        with code.barrier():
            program.block(region)
            values = region.ops[-1].operands[skip:]
            args = region.args[len(region.args) - len(values) :]
            self._yield_tiles(values, args, buffers)
        return {k: self.context.scalars[v] for k, v in enumerate(values) if k not in buffers}

    def _yield_tiles(self, values: list[ir.Value], args: list[ir.Value], buffers: dict[int, Buffer]) -> None:
        """Puts yielded tiles into buffers that other yielded tiles may still be computed from."""
        program = self.program
        order = sorted(buffers, key=lambda k: -values[k].type.numel)
        done = {k for k in order if self.context.buffers.get(values[k]) is buffers[k]}
        order = [k for k in order if not (args and values[k] is args[k]) and k not in done]
        direct = {k: Root("keep", values[k], values[k].type.shape, None, buffers[k], None) for k in order}
        late = {k for k in order if not self._in_place(k, order, direct, args)}
        copies: list[tuple[Buffer, int]] = []
        for k in order:
            if k in late:
                spare = program.buffer(values[k])
                copies.append((spare, k))
                program.add(Root("keep", values[k], values[k].type.shape, None, spare, None))
            else:
                program.add(direct[k])
        program.flush()
        for spare, k in copies:
            copy = ir.Value(values[k].type)
            self.context.buffers[copy] = spare
            program.grouper.stops.add(copy)
            program.add(Root("keep", copy, copy.type.shape, None, buffers[k], None))
        program.flush()

    def _in_place(self, k: int, order: list[int], roots: dict[int, Root], args: list[ir.Value]) -> bool:
        """Whether tile k can be overwritten at once: it is read at the same index only, and not later."""
        if not args:
            return True
        for j in order:
            identity = tuple(range(len(roots[j].shape)))
            same_loop = roots[j].shape == roots[k].shape
            for value, dims in self.program.grouper.leaves(roots[j]).kept:
                if self.context.origin(value) is not args[k]:
                    continue
                if value is not args[k]:  # seen with another shape: other elements lie at an index
                    return False
                before = order.index(j) < order.index(k)
                if not (same_loop and dims == identity) and not (before and not same_loop):
                    return False
        return True

    # --- if -------------------------------------------------------------------------------------------

    def branch(self, op: ir.Op) -> None:
        program, code, context = self.program, self.code, self.context
        program.flush()
        condition = context.scalars[op.operands[0]]
        buffers = {k: program.buffer(r) for k, r in enumerate(op.results) if r.type.is_tile}
        before = code.scopes[-1].block
        ends: list[tuple[Block, dict[int, V]]] = []
        starts: list[Block] = []
        for region in op.regions:
            start = code.new_block("case")
            starts.append(start)
            with code.scope(start):
                outs = self._region(region, buffers) if region.ops else {}
                ends.append((code.scopes[-1].block, outs))
        done = code.new_block("endif")
        for end, _ in ends:
            end.end = f"br label %{done.label}"
        other = starts[1] if len(starts) > 1 else done
        before.end = f"br i1 {condition.text}, label %{starts[0].label}, label %{other.label}"
        code.scopes[-1].block = done
        for k, result in enumerate(op.results):
            if k in buffers:
                context.buffers[result] = buffers[k]
                continue
            final = V(code.fresh("%r"), ends[0][1][k].type, code.depth)
            code.line(_phi(final, [(outs[k], end) for end, outs in ends]).strip())
            context.scalars[result] = final

    # --- while ----------------------------------------------------------------------------------------

    def while_loop(self, op: ir.Op) -> None:
        program, code, context = self.program, self.code, self.context
        program.flush()
        head, body = op.regions
        buffers = self._start(op, op.operands, head.args)
        scalars = [k for k, v in enumerate(op.operands) if not v.type.is_tile]
        before = code.scopes[-1].block
        start = code.new_block("while")
        before.end = f"br label %{start.label}"
        passed = {k: program.buffer(r) for k, r in enumerate(op.results) if r.type.is_tile}
        with code.scope(start):
            phis = {k: V(code.fresh("%c"), context.scalars[op.operands[k]].type, code.depth) for k in scalars}
            for k, phi in phis.items():
                context.scalars[head.args[k]] = phi
            outs = self._head(head, passed)
            condition = context.scalars[head.ops[-1].operands[0]]
            test = code.scopes[-1].block
            inner = code.new_block("do")
            for k, arg in enumerate(body.args):
                if k in passed:
                    context.buffers[arg] = passed[k]
                    program.grouper.stops.add(arg)
                else:
                    context.scalars[arg] = outs[k]
            with code.scope(inner):
                back = self._region(body, buffers)
                latch = code.scopes[-1].block
                latch.end = f"br label %{start.label}"
            start.lines[:0] = [
                _phi(p, [(context.scalars[op.operands[k]], before), (back[k], latch)])
                for k, p in phis.items()
            ]
            done = code.new_block("end")
            test.end = f"br i1 {condition.text}, label %{inner.label}, label %{done.label}"
            code.scopes[-1].block = done
        for k, result in enumerate(op.results):
            if k in passed:
                context.buffers[result] = passed[k]
            else:
                context.scalars[result] = outs[k]._replace(depth=min(outs[k].depth, code.depth))

    def _head(self, head: ir.Block, passed: dict[int, Buffer]) -> dict[int, V]:
        program, code = self.program, self.code
        with code.barrier():
            program.block(head)
            values = head.ops[-1].operands[1:]
            self._yield_tiles(values, [], passed)
        return {k: self.context.scalars[v] for k, v in enumerate(values) if k not in passed}


def _phi(value: V, sources: list[tuple[V, Block]]) -> str:
    text = ", ".join(f"[{v.text}, %{block.label}]" for v, block in sources)
    return f"  {value.text} = phi {value.type} {text}"
