"""Copies a function operation by operation; a pass overrides what it changes."""

from __future__ import annotations

from portkit.runtime.tile import ir

EFFECTS = frozenset({"store", *ir.ATOMICS, *ir.HOST_CALLS})
CONTROL = frozenset({"for", "while", "if", "map"})
ENDS = frozenset({"yield", "return"})


def is_pure(op: ir.Op) -> bool:
    """Whether an operation only computes its results, from nothing but its operands."""
    return op.opcode not in EFFECTS | CONTROL | ENDS and op.opcode != "load"


class Rewriter:
    """`values` maps values of the old function to those of the new one."""

    def __init__(self) -> None:
        self.values: dict[ir.Value, ir.Value] = {}

    def function(self, func: ir.Function) -> ir.Function:
        """The new function."""
        params = [self.argument(p) for p in func.params]
        new = ir.Function(func.name, params, list(func.facts), ir.Block(), func.source)
        self.start(new)
        self.fill(func.body, new.body)
        return new

    def start(self, func: ir.Function) -> None:
        """Called when the parameters are there and the body is still empty."""

    def argument(self, value: ir.Value) -> ir.Value:
        new = ir.Value(value.type, value.name)
        self.values[value] = new
        return new

    def block(self, block: ir.Block) -> ir.Block:
        """A copy of a region."""
        new = ir.Block([self.argument(a) for a in block.args])
        self.fill(block, new)
        return new

    def fill(self, block: ir.Block, out: ir.Block) -> None:
        for op in block.ops:
            self.op(op, out)

    def op(self, op: ir.Op, out: ir.Block) -> None:
        """Puts what replaces an operation into `out`."""
        self.copy(op, out)

    def operands(self, op: ir.Op) -> list[ir.Value]:
        return [self.values[v] for v in op.operands]

    def copy(self, op: ir.Op, out: ir.Block) -> ir.Op:
        """The same operation on the new operands."""
        new = ir.Op(op.opcode, self.operands(op), [], dict(op.attrs), [], op.loc)
        new.results = [ir.Value(r.type, r.name, new) for r in op.results]
        new.regions = [self.block(region) for region in op.regions]
        self.values.update(zip(op.results, new.results, strict=True))
        out.ops.append(new)
        return new


def emit(
    out: ir.Block, like: ir.Op, opcode: str, operands: list[ir.Value], type: ir.Type, **attrs: ir.Attribute
) -> ir.Value:
    """Appends an operation with one result at the source place of another."""
    builder = ir.Builder(out)
    builder.loc = like.loc
    value = builder.value(opcode, operands, type, **attrs)
    value.name = like.results[0].name if like.results else ""
    return value
