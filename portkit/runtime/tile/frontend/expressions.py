"""Expressions of a kernel: constants are computed while compiling, everything else becomes operations."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import calls, introspect
from portkit.runtime.tile.frontend.context import Context
from portkit.runtime.tile.frontend.control import branch
from portkit.runtime.tile.frontend.semantics import FOLDS, constant, describe, is_number

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.MatMult: "@",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def evaluate(ctx: Context, node: ast.expr) -> Any:
    """The value of an expression: an `ir.Value`, or a Python object known while compiling.

    Raises KernelError with the place of the innermost expression at fault.
    """
    handler = _HANDLERS.get(type(node))
    source, builder = ctx.frame.source, ctx.builder
    before = builder.loc
    builder.loc = source.loc(node)
    try:
        if handler is None:
            raise KernelError(f"portkit does not support {_name(node)} in a kernel yet")
        return handler(ctx, node)
    except KernelError as error:
        source.locate(error, node)
        raise
    finally:
        builder.loc = before


def _name(node: ast.AST) -> str:
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in type(node).__name__)
    return f"`{words.strip()}`"


def _constant(ctx: Context, node: ast.Constant) -> Any:
    return node.value


def _load(ctx: Context, node: ast.Name) -> Any:
    return ctx.lookup(node.id)


def _tuple(ctx: Context, node: ast.Tuple | ast.List) -> Any:
    items: list[Any] = []
    for item in node.elts:
        if isinstance(item, ast.Starred):
            items += evaluate(ctx, item.value)
        else:
            items.append(evaluate(ctx, item))
    return tuple(items)


def _binary(ctx: Context, node: ast.BinOp) -> Any:
    left, right = evaluate(ctx, node.left), evaluate(ctx, node.right)
    return apply(ctx, type(node.op), left, right)


def apply(ctx: Context, op: type[ast.operator], left: Any, right: Any) -> Any:
    """`left op right`, computed now when both are known."""
    symbol = _BINARY[op]
    if not isinstance(left, ir.Value) and not isinstance(right, ir.Value):
        return fold(symbol, left, right)
    if symbol not in FOLDS or symbol == "**":
        raise KernelError(
            f"portkit does not support operator {symbol} on tiles",
            remedy="Use tl.dot(a, b) for products, and multiplication or tl.exp2 for powers.",
        )
    return ctx.sem.binary(symbol, left, right)


def fold(symbol: str, left: Any, right: Any) -> Any:
    """An operator on constants."""
    try:
        return FOLDS[symbol](left, right)
    except (TypeError, ValueError, ArithmeticError, KeyError) as error:
        raise KernelError(f"{describe(left)} {symbol} {describe(right)} has no value: {error}") from error


def _unary(ctx: Context, node: ast.UnaryOp) -> Any:
    value = evaluate(ctx, node.operand)
    if not isinstance(value, ir.Value):
        return _fold_unary(node.op, value)
    if isinstance(node.op, ast.USub):
        return ctx.sem.negate(value)
    if isinstance(node.op, ast.Invert):
        return ctx.sem.invert(value)
    if isinstance(node.op, ast.Not):
        return ctx.sem.invert(ctx.sem.truth(value))
    return value


def _fold_unary(op: ast.unaryop, value: Any) -> Any:
    try:
        if isinstance(op, ast.USub):
            return -value
        if isinstance(op, ast.Invert):
            return (not value) if isinstance(value, bool) else ~value
        return (not value) if isinstance(op, ast.Not) else +value
    except TypeError as error:
        raise KernelError(f"the operator does not apply to {describe(value)}") from error


def _boolean(ctx: Context, node: ast.BoolOp) -> Any:
    is_and = isinstance(node.op, ast.And)
    result = evaluate(ctx, node.values[0])
    for item in node.values[1:]:
        known = result if not isinstance(result, ir.Value) else constant(result)
        if known is not None or not isinstance(result, ir.Value):
            if bool(known) != is_and:
                return result  # decided: the rest is not evaluated, as in Python
            result = evaluate(ctx, item)
            continue
        left, right = ctx.sem.truth(result), ctx.sem.truth(evaluate(ctx, item))
        result = ctx.sem.binary("&" if is_and else "|", left, right)
    return result


def _compare(ctx: Context, node: ast.Compare) -> Any:
    left = evaluate(ctx, node.left)
    result: Any = None
    for op, item in zip(node.ops, node.comparators, strict=True):
        right = evaluate(ctx, item)
        one = _compare_two(ctx, op, left, right)
        result = one if result is None else _both(ctx, result, one)
        left = right
    return result


def _both(ctx: Context, a: Any, b: Any) -> Any:
    if not isinstance(a, ir.Value) and not isinstance(b, ir.Value):
        return a and b
    return ctx.sem.binary("&", a, b)


def _compare_two(ctx: Context, op: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(op, (ast.Is, ast.IsNot)):
        return (left is right) == isinstance(op, ast.Is)
    if isinstance(op, (ast.In, ast.NotIn)):
        if isinstance(left, ir.Value) or not isinstance(right, (tuple, list, str)):
            raise KernelError("`in` needs a constant on the left and a constant tuple on the right")
        return (left in right) == isinstance(op, ast.In)
    symbol = _COMPARE[type(op)]
    if not isinstance(left, ir.Value) and not isinstance(right, ir.Value):
        return fold(symbol, left, right)
    if symbol in ("==", "!=") and not all(isinstance(s, ir.Value) or is_number(s) for s in (left, right)):
        return symbol == "!="  # a value never equals None, a string or a type
    return ctx.sem.compare(symbol, left, right)


def _choose(ctx: Context, node: ast.IfExp) -> Any:
    test = evaluate(ctx, node.test)
    known = constant(test) if isinstance(test, ir.Value) else bool(test)
    if known is not None:
        return evaluate(ctx, node.body if known else node.orelse)
    return branch(ctx, test, lambda: evaluate(ctx, node.body), lambda: evaluate(ctx, node.orelse))


def _attribute(ctx: Context, node: ast.Attribute) -> Any:
    return introspect.attribute(ctx, evaluate(ctx, node.value), node.attr)


def _subscript(ctx: Context, node: ast.Subscript) -> Any:
    target = evaluate(ctx, node.value)
    if not isinstance(target, ir.Value):
        return introspect.item(target, _index(ctx, node.slice))
    keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    axes = [_axis(ctx, key) for key in keys]
    for position, insert in enumerate(axes):
        if insert:
            target = ctx.sem.expand(target, position)
    return target


def _axis(ctx: Context, key: ast.expr) -> bool:
    """Whether a tile's index inserts an axis (None) or keeps one (`:`)."""
    if isinstance(key, ast.Slice):
        bounds = [b for b in (key.lower, key.upper, key.step) if b is not None]
        if all(evaluate(ctx, b) is None for b in bounds):
            return False
    if not isinstance(key, ast.Slice) and evaluate(ctx, key) is None:
        return True
    raise KernelError(
        "unsupported tensor index: a tile is indexed with `:` and `None` only",
        remedy="Choose elements when loading, by pointer arithmetic, or with tl.where and a reduction.",
    )


def _index(ctx: Context, node: ast.expr) -> Any:
    if not isinstance(node, ast.Slice):
        key = evaluate(ctx, node)
        return constant(key) if isinstance(key, ir.Value) else key
    bounds = (None if b is None else constant(evaluate(ctx, b)) for b in (node.lower, node.upper, node.step))
    return slice(*bounds)


def _call(ctx: Context, node: ast.Call) -> Any:
    function = evaluate(ctx, node.func)
    args: list[Any] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            args += evaluate(ctx, arg.value)
        else:
            args.append(evaluate(ctx, arg))
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluate(ctx, keyword.value)
        if keyword.arg is None:
            raise KernelError("portkit does not support **arguments in a kernel")
        kwargs[keyword.arg] = value
    return calls.call(ctx, function, args, kwargs)


def _string(ctx: Context, node: ast.JoinedStr) -> str:
    parts = []
    for part in node.values:
        value = evaluate(ctx, part.value) if isinstance(part, ast.FormattedValue) else evaluate(ctx, part)
        parts.append(describe(value) if isinstance(value, ir.Value) else str(value))
    return "".join(parts)


def _walrus(ctx: Context, node: ast.NamedExpr) -> Any:
    value = evaluate(ctx, node.value)
    ctx.frame.names[node.target.id] = value
    return value


_HANDLERS: dict[type[ast.expr], Callable[[Context, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: _load,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _choose,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.JoinedStr: _string,
    ast.NamedExpr: _walrus,
}
