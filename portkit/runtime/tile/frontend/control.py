"""Structured control flow: values that leave a branch, and values that loops carry."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.context import Context, Undefined
from portkit.runtime.tile.frontend.semantics import describe, is_number


@dataclass(frozen=True)
class Returned:
    """The function ended here, with this value (None for a plain `return`)."""

    value: Any


Execute: TypeAlias = Callable[[Context, Sequence[ast.stmt]], Returned | None]


def flatten(value: Any) -> list[ir.Value]:
    """The IR values inside a value (a tuple may hold several, and constants besides)."""
    if isinstance(value, ir.Value):
        return [value]
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flatten(item)]
    return []


def rebuild(value: Any, leaves: list[ir.Value]) -> Any:
    """The same structure with its IR values replaced, in order, by those taken from the front of `leaves`."""
    if isinstance(value, ir.Value):
        return leaves.pop(0)
    if isinstance(value, tuple):
        items = [rebuild(item, leaves) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def settle(ctx: Context, value: Any) -> Any:
    """A value as a plain assignment leaves it: Python numbers become typed scalars."""
    if is_number(value):
        return ctx.sem.value(value)
    if isinstance(value, tuple):
        items = [settle(ctx, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def condition(ctx: Context, value: Any) -> ir.Value:
    """A scalar i1 from the test of an `if` or `while`."""
    test = ctx.sem.truth(value)
    if test.type.is_tile:
        raise KernelError(
            f"the condition is {describe(test)}, not a scalar",
            remedy="Use tl.where for a choice by element, or reduce it first, e.g. tl.max(x, axis=0) > 0.",
        )
    return test


def branch(ctx: Context, test: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """The value of one of two expressions, by a scalar known at run time; both must have one type."""
    operand = condition(ctx, test)
    blocks = [ir.Block(), ir.Block()]
    names = ctx.frame.names
    results = [
        ctx.in_block(block, dict(names), lambda body=body: settle(ctx, body()))  # type: ignore[misc]
        for block, body in zip(blocks, (then, orelse), strict=True)
    ]
    merged = merge(results[0], results[1], "the two sides of this choice")
    if isinstance(merged, Undefined):
        raise KernelError(merged.message, remedy=merged.remedy)
    return rebuild(results[0], close_if(ctx, operand, blocks, [flatten(r) for r in results]))


def close_if(
    ctx: Context, operand: ir.Value, blocks: list[ir.Block], yields: Sequence[list[ir.Value]]
) -> list[ir.Value]:
    """Emit the `if`, each block ending in its yield; gives the merged values."""
    for block, values in zip(blocks, yields, strict=True):
        op = ir.Op("yield", list(values), [], loc=ctx.builder.loc)
        block.ops.append(op)
    op = ctx.builder.add("if", [operand], [v.type for v in yields[0]], blocks)
    for result, source in zip(op.results, yields[0], strict=True):
        result.name = source.name
    return list(op.results)


def merge(a: Any, b: Any, what: str) -> Any:
    """`a` when both values have one structure and one set of types, else an `Undefined` that says why."""
    if isinstance(a, ir.Value) and isinstance(b, ir.Value):
        if a.type == b.type:
            return a
        return Undefined(
            f"{what} have different types, {a.type} and {b.type}",
            "Cast one of them, so that both have one type and shape.",
        )
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [merge(x, y, what) for x, y in zip(a, b, strict=True)]
        return next((p for p in parts if isinstance(p, Undefined)), a)
    if isinstance(a, ir.Value) or isinstance(b, ir.Value) or not _same(a, b):
        return Undefined(
            f"{what} can't be merged: {describe(a)} and {describe(b)}",
            "Constants that differ by a branch are decided by a tl.constexpr condition.",
        )
    return a


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b))
