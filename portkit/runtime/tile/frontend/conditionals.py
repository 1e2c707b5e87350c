"""`if`: decided while compiling by a constant condition, else both branches with their names merged."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.context import Context, Undefined
from portkit.runtime.tile.frontend.control import (
    Execute,
    Returned,
    close_if,
    condition,
    flatten,
    merge,
    rebuild,
    settle,
)
from portkit.runtime.tile.frontend.expressions import evaluate
from portkit.runtime.tile.frontend.semantics import constant


def conditional(ctx: Context, node: ast.If, rest: Sequence[ast.stmt], execute: Execute) -> Returned | None:
    """Emit an `if`; gives what `execute` gives.  `rest` are the statements after it in the same body."""
    test = evaluate(ctx, node.test)
    known = constant(test) if isinstance(test, ir.Value) else bool(test)
    if known is not None:
        chosen = node.body if known else node.orelse
        if not any(isinstance(n, ast.If) and returns_inside(n) for n in chosen):
            return execute(ctx, chosen)
        # a choice inside it may return on one side only: it takes the statements after this one along
        return execute(ctx, [*chosen, *rest]) or Returned(None)
    operand = condition(ctx, test)
    bodies = [list(node.body), list(node.orelse)]
    returns = returns_inside(node)
    if returns:
        bodies = [[*body, *rest] for body in bodies]
    loc = ctx.builder.loc
    sides = [_side(ctx, body, execute) for body in bodies]
    ctx.builder.loc = loc
    if returns:
        return Returned(_merge_returns(ctx, node, operand, sides))
    _merge_names(ctx, node, operand, sides)
    return None


class _Side:
    """One branch: its operations, the names after it, and what it returned."""

    def __init__(self, block: ir.Block, names: dict[str, Any]) -> None:
        self.block = block
        self.names = names
        self.outcome: Any = None


def _side(ctx: Context, body: Sequence[ast.stmt], execute: Execute) -> _Side:
    side = _Side(ir.Block(), dict(ctx.frame.names))

    def run() -> None:
        outcome = execute(ctx, body)
        side.outcome = None if outcome is None else settle(ctx, outcome.value)

    ctx.in_block(side.block, side.names, run)
    return side


def returns_inside(node: ast.AST) -> bool:
    """Whether a statement holds a `return` of this function."""
    return any(isinstance(inner, ast.Return) for inner in ast.walk(node))


def _merge_returns(ctx: Context, node: ast.If, operand: ir.Value, sides: list[_Side]) -> Any:
    merged = merge(sides[0].outcome, sides[1].outcome, "the values returned by this function's branches")
    if isinstance(merged, Undefined):
        raise KernelError(merged.message, remedy=merged.remedy)
    yields = [flatten(side.outcome) for side in sides]
    results = close_if(ctx, operand, [side.block for side in sides], yields)
    return rebuild(merged, results)


def _merge_names(ctx: Context, node: ast.If, operand: ir.Value, sides: list[_Side]) -> None:
    line = ctx.frame.source.loc(node).line
    names = ctx.frame.names
    values: dict[str, Any] = {}
    for name in [*sides[0].names, *(n for n in sides[1].names if n not in sides[0].names)]:
        pair = [side.names.get(name, _missing(name, line)) for side in sides]
        if pair[0] is pair[1]:
            continue
        undefined = next((p for p in pair if isinstance(p, Undefined)), None)
        values[name] = undefined or _merge_name(ctx, name, pair, sides, line)
    yields: list[list[ir.Value]] = [[], []]
    for name, value in values.items():
        if not isinstance(value, Undefined):
            for side, row in zip(sides, yields, strict=True):
                row += flatten(side.names[name])
    results = close_if(ctx, operand, [side.block for side in sides], yields)
    for name, value in values.items():
        names[name] = value if isinstance(value, Undefined) else rebuild(value, results)


def _merge_name(ctx: Context, name: str, pair: list[Any], sides: list[_Side], line: int) -> Any:
    if any(isinstance(value, ir.Value) for value in pair):
        for side in sides:  # a constant on one side only is a typed scalar where the sides meet
            ctx.in_block(side.block, side.names, lambda s=side: _settle_name(ctx, name, s))  # type: ignore[misc]
        pair = [side.names[name] for side in sides]
    return merge(pair[0], pair[1], f"the values that the branches at line {line} give `{name}`")


def _settle_name(ctx: Context, name: str, side: _Side) -> None:
    side.names[name] = settle(ctx, side.names[name])


def _missing(name: str, line: int) -> Undefined:
    return Undefined(
        f"`{name}` is assigned in only one branch of the `if` at line {line}",
        f"Give `{name}` a value before the `if`.",
    )
