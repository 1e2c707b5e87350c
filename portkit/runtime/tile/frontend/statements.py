"""Statements of a kernel: assignments, and the dispatch to branches and loops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import calls, conditionals, loops
from portkit.runtime.tile.frontend.context import Context
from portkit.runtime.tile.frontend.control import Returned, settle
from portkit.runtime.tile.frontend.expressions import apply, evaluate
from portkit.runtime.tile.frontend.semantics import constant, describe
from portkit.runtime.tile.language._base import constexpr


def execute(ctx: Context, body: Sequence[ast.stmt]) -> Returned | None:
    """Emit statements in order; gives what was returned, or None when the end was reached.

    A branch that returns takes the statements after it along, so that every path ends in its own return.
    """
    for index, node in enumerate(body):
        source, builder = ctx.frame.source, ctx.builder
        builder.loc = source.loc(node)
        try:
            done = _statement(ctx, node, body[index + 1 :])
        except KernelError as error:
            source.locate(error, node)
            raise
        if done is not None:
            return done
    return None


def _statement(ctx: Context, node: ast.stmt, rest: Sequence[ast.stmt]) -> Returned | None:
    if isinstance(node, ast.Return):
        return _return(ctx, node)
    if isinstance(node, ast.If):
        return conditionals.conditional(ctx, node, rest, execute)
    if isinstance(node, ast.For):
        loops.for_loop(ctx, node, execute)
        return None
    if isinstance(node, ast.While):
        loops.while_loop(ctx, node, execute)
        return None
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise KernelError(
            f"portkit does not support `{type(node).__name__.lower()}` in a kernel",
            remedy=_REMEDIES.get(type(node), ""),
        )
    handler(ctx, node)
    return None


def _return(ctx: Context, node: ast.Return) -> Returned:
    if ctx.frame.inside_loop:
        raise KernelError(
            "portkit does not support `return` inside a loop",
            remedy="Make the loop's condition false instead, and return after it.",
        )
    return Returned(None if node.value is None else evaluate(ctx, node.value))


def _assign(ctx: Context, node: ast.Assign) -> None:
    value = settle(ctx, evaluate(ctx, node.value))
    for target in node.targets:
        bind(ctx, target, value)


def bind(ctx: Context, target: ast.expr, value: Any) -> None:
    """Assign to a name, or to a tuple of names."""
    if isinstance(target, ast.Name):
        if isinstance(value, ir.Value) and not value.name:
            value.name = target.id
        ctx.frame.names[target.id] = value
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise KernelError(
            "only names can be assigned in a kernel",
            remedy="Write to memory with tl.store; build a changed tile with tl.where.",
        )
    if not isinstance(value, (tuple, list)):
        raise KernelError(f"{describe(value)} can't be unpacked")
    if len(value) != len(target.elts):
        raise KernelError(f"{len(value)} values can't be unpacked into {len(target.elts)} names")
    for item, part in zip(target.elts, value, strict=True):
        bind(ctx, item, part)


def _annotated(ctx: Context, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    value = evaluate(ctx, node.value)
    if not _is_constexpr(ctx, node.annotation):
        bind(ctx, node.target, settle(ctx, value))
        return
    if isinstance(value, ir.Value) and not value.type.is_tile:
        known = constant(value)
        value = value if known is None else known  # as in Triton, a value of run time may bear the name
    bind(ctx, node.target, value)


def _is_constexpr(ctx: Context, annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant):
        return isinstance(annotation.value, str) and annotation.value.split(".")[-1] == "constexpr"
    try:
        found = evaluate(ctx, annotation)
    except KernelError:
        return False  # an annotation may be any text: only constexpr has a meaning here
    return found is constexpr or getattr(found, "__name__", "") == "constexpr"


def _augmented(ctx: Context, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        raise KernelError("only names can be assigned in a kernel")
    before = evaluate(ctx, ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    value = apply(ctx, type(node.op), before, evaluate(ctx, node.value))
    bind(ctx, node.target, settle(ctx, value))


def _expression(ctx: Context, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):  # a docstring
        evaluate(ctx, node.value)


def _assert(ctx: Context, node: ast.Assert) -> None:
    test = evaluate(ctx, node.test)
    known = constant(test) if isinstance(test, ir.Value) else bool(test)
    if known is None:
        message = evaluate(ctx, node.msg) if node.msg is not None else ""
        calls.call(ctx, calls.language_function("device_assert"), [test, message], {})
    if known is None or known:
        return
    message = evaluate(ctx, node.msg) if node.msg is not None else "it is false"
    raise KernelError(f"assertion failed: {message}")


def _raise(ctx: Context, node: ast.Raise) -> None:
    text = ast.unparse(node.exc) if node.exc is not None else "raise"
    raise KernelError(f"the kernel raises here: {text}")


def _pass(ctx: Context, node: ast.Pass) -> None:
    """Nothing to do."""


_HANDLERS: dict[type[ast.stmt], Callable[[Context, Any], None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Pass: _pass,
}
_REMEDIES: dict[type[ast.stmt], str] = {
    ast.Break: "Use a `while` whose condition ends it.",
    ast.Continue: "Put the rest of the body under an `if`.",
    ast.FunctionDef: "Move the function to module level, under @portkit.jit.",
    ast.Import: "Import at module level.",
    ast.ImportFrom: "Import at module level.",
}
