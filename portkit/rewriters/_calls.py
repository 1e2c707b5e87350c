"""Arguments of a call, bound to the parameters of a signature that is given as text."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

from portkit.finding import DropArgument, Edit, NameArgument, Replace
from portkit.rule import Context


@dataclass(frozen=True)
class Argument:
    """One argument as it stands in a call: by position, or by keyword."""

    node: ast.expr
    index: int | None = None
    keyword: str | None = None


@dataclass(frozen=True)
class Parameter:
    """One parameter of a signature; `default` is its source, None where it has none."""

    name: str
    default: str | None
    positional: bool


@cache
def signature(text: str) -> tuple[Parameter, ...]:
    """Parameters of a signature in Python syntax, such as `input, dim=None, *, dtype=None`."""
    function = ast.parse(f"def f({text}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return parameters(function.args)


def parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    """Parameters of a function definition, without `*args` and `**kwargs`."""
    names = [*arguments.posonlyargs, *arguments.args]
    missing = len(names) - len(arguments.defaults)
    found = [
        Parameter(a.arg, ast.unparse(arguments.defaults[i - missing]) if i >= missing else None, True)
        for i, a in enumerate(names)
    ]
    for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(Parameter(a.arg, ast.unparse(default) if default else None, False))
    return tuple(found)


def is_starred(call: ast.Call) -> bool:
    """Whether a call passes `*args` or `**kwargs`, so that its arguments can't be known."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def bind(call: ast.Call, params: tuple[Parameter, ...]) -> dict[str, Argument] | str:
    """Arguments of a call by parameter name, or the reason why they can't be bound."""
    if is_starred(call):
        return "arguments are passed with * or **"
    positional = [p.name for p in params if p.positional]
    if len(call.args) > len(positional):
        return f"{len(call.args)} positional arguments are given, {len(positional)} are known"
    bound = {positional[i]: Argument(node, index=i) for i, node in enumerate(call.args)}
    known = {p.name for p in params}
    for keyword in call.keywords:
        name = keyword.arg or ""
        if name not in known:
            return f"the argument {name} is not known"
        if name in bound:
            return f"the argument {name} is given twice"
        bound[name] = Argument(keyword.value, keyword=name)
    return bound


def argument(call: ast.Call, index: int | None, keyword: str) -> Argument | None:
    """The argument that stands at a position or under a keyword; None if absent or hidden by a star."""
    for item in call.keywords:
        if item.arg == keyword:
            return Argument(item.value, keyword=keyword)
    if index is None or index >= len(call.args):
        return None
    if any(isinstance(a, ast.Starred) for a in call.args[: index + 1]):
        return None
    return Argument(call.args[index], index=index)


def drop(ctx: Context, call: ast.Call, given: Argument) -> Edit:
    """The edit that removes an argument."""
    return DropArgument(ctx.span(call), index=given.index, keyword=given.keyword)


def name_rest(ctx: Context, call: ast.Call, names: tuple[str, ...], start: int) -> list[Edit]:
    """Edits that turn the positional arguments from `start` on into keywords."""
    span = ctx.span(call)
    return [NameArgument(span, index=i, keyword=names[i]) for i in range(start, len(call.args))]


def recallee(ctx: Context, call: ast.Call, text: str) -> Edit:
    """The edit that puts another callee in front of the same arguments."""
    return Replace(ctx.span(call.func), text)
