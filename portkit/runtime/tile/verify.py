"""Checks that a function is valid tile IR: operands, types, shapes, attributes, scopes, terminators."""

from __future__ import annotations

from collections.abc import Callable

from portkit.runtime.tile import ir
from portkit.runtime.tile.verify_rules import ELEMENTWISE, RULES, VerifyError, expect

__all__ = ["VerifyError", "verify"]


def verify(func: ir.Function) -> None:
    """Raise VerifyError, naming the operation and its place, unless the function is valid."""
    expect(len(func.params) == len(func.facts), None, "one fact for each parameter")
    scope = set(func.params)
    expect(len(scope) == len(func.params), None, "a parameter appears twice")
    _Verifier(scope).block(func.body, "return")


class _Verifier:
    """Walks blocks with the set of values that are defined so far and in scope."""

    def __init__(self, scope: set[ir.Value]) -> None:
        self.scope = scope
        self.defined = set(scope)  # ever, to catch a value defined twice

    def block(self, block: ir.Block, terminator: str) -> ir.Op:
        """Check a block that must end in `terminator`; gives that operation."""
        outer = set(self.scope)
        for arg in block.args:
            expect(arg.owner is None, None, f"block argument {arg.name or arg.type} has an owner")
            self.define(arg, None)
        expect(bool(block.ops), None, f"a block is empty: it must end in {terminator}")
        for op in block.ops:
            last = op is block.ops[-1]
            ends = op.opcode in ("return", "yield")
            expect(last or not ends, op, "stands in the middle of a block")
            expect(not last or op.opcode == terminator, op, f"ends a block that must end in {terminator}")
            self.op(op)
        self.scope = outer
        return block.ops[-1]

    def define(self, value: ir.Value, op: ir.Op | None) -> None:
        expect(value not in self.defined, op, f"defines %{value.name or '?'} a second time")
        self.defined.add(value)
        self.scope.add(value)

    def op(self, op: ir.Op) -> None:
        """Check one operation, then what is inside it."""
        for index, value in enumerate(op.operands):
            what = "before its definition, or out of its scope"
            expect(value in self.scope, op, f"uses operand {index} (%{value.name or value.type}) {what}")
        rule = RULES.get(op.opcode)
        if rule is None:
            expect(op.opcode in ELEMENTWISE, op, "is not an operation of the tile IR")
            rule = ELEMENTWISE[op.opcode]
        check_regions = _REGIONS.get(op.opcode)
        expect(bool(op.regions) == (check_regions is not None), op, "has regions, or lacks them")
        rule(op)
        if check_regions is not None:
            check_regions(self, op)
        for result in op.results:
            expect(result.owner is op, op, "has a result that does not name it as owner")
            self.define(result, op)


def _types(values: list[ir.Value]) -> list[ir.Type]:
    return [v.type for v in values]


def _same(op: ir.Op, got: list[ir.Type], want: list[ir.Type], what: str) -> None:
    shown = [", ".join(map(str, types)) or "nothing" for types in (got, want)]
    expect(got == want, op, f"{what}: {shown[0]}, not {shown[1]}")


def _for(verifier: _Verifier, op: ir.Op) -> None:
    expect(len(op.regions) == 1, op, "needs one region")
    body = op.regions[0]
    carried = _types(op.operands[3:])
    _same(op, _types(op.results), carried, "results do not match the values it starts with")
    _same(op, _types(body.args), [op.operands[0].type, *carried], "block arguments are wrong")
    end = verifier.block(body, "yield")
    _same(end, _types(end.operands), carried, "yields the wrong types")


def _while(verifier: _Verifier, op: ir.Op) -> None:
    expect(len(op.regions) == 2, op, "needs two regions")
    carried = _types(op.operands)
    _same(op, _types(op.results), carried, "results do not match the values it starts with")
    for region, head in zip(op.regions, ([ir.Type(ir.I1)], []), strict=True):
        _same(op, _types(region.args), carried, "block arguments are wrong")
        end = verifier.block(region, "yield")
        _same(end, _types(end.operands), [*head, *carried], "yields the wrong types")


def _if(verifier: _Verifier, op: ir.Op) -> None:
    expect(len(op.regions) == 2, op, "needs two regions")
    for region in op.regions:
        expect(not region.args, op, "a branch has no block arguments")
        end = verifier.block(region, "yield")
        _same(end, _types(end.operands), _types(op.results), "yields the wrong types")


def _map(verifier: _Verifier, op: ir.Op) -> None:
    expect(len(op.regions) == 1, op, "needs one region")
    (body,) = op.regions
    scalars = [t.with_shape(()) for t in _types(op.operands)]
    _same(op, _types(body.args), scalars, "block arguments are wrong")
    end = verifier.block(body, "yield")
    _same(end, _types(end.operands), [t.with_shape(()) for t in _types(op.results)], "yields the wrong types")


_REGIONS: dict[str, Callable[[_Verifier, ir.Op], None]] = {
    "for": _for,
    "while": _while,
    "if": _if,
    "map": _map,
}
