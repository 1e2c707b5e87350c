"""Variables that hold a device or the ordinal of one, and where they go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from portkit.rewriters import _devices
from portkit.rule import Context
from portkit.scopes import walk

_SETTERS = frozenset({"set_device"})


def assignments(node: ast.Name, ctx: Context) -> list[ast.expr]:
    """What the function (or module) around a name assigns to it."""
    return _assigned(scope(node, ctx)).get(node.id, [])


@lru_cache(maxsize=8)
def _assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """What a scope assigns to names, by name."""
    found: dict[str, list[ast.expr]] = {}
    for item in walk(scope):
        if isinstance(item, ast.Assign):
            for name in {target.id for target in item.targets if isinstance(target, ast.Name)}:
                found.setdefault(name, []).append(item.value)
    return found


def only_device(name: str, node: ast.AST, ctx: Context) -> bool:
    """Whether every use of a variable in its scope is a device's place, and it is bound once."""
    stores, loads = uses(name, node, ctx)
    return stores == 1 and bool(loads) and all(_in_device_place(item, ctx) for item in loads)


def is_only_device(node: ast.Assign, ctx: Context) -> bool:
    """Whether what a statement assigns is only used as a device; what it is made of does not count.

    In `device = device or torch.cuda.current_device()`, the second `device` is a parameter.
    """
    target = node.targets[0]
    if not isinstance(target, ast.Name):
        return False
    stores, loads = uses(target.id, node, ctx)
    inside = set(walk(node.value))
    rest = [item for item in loads if item not in inside]
    return stores == 1 and bool(rest) and all(_in_device_place(item, ctx) for item in rest)


def uses(name: str, node: ast.AST, ctx: Context) -> tuple[int, list[ast.Name]]:
    """How often a name is bound in the scope of a node, and its loads there."""
    stores, loads = 0, []
    for item in _in_reach(scope(node, ctx), name):
        if isinstance(item, ast.Name) and item.id == name:
            if isinstance(item.ctx, ast.Load):
                loads.append(item)
            else:
                stores += 1
    return stores, loads


def _in_reach(around: ast.AST, name: str) -> Iterator[ast.AST]:
    """The nodes of a scope, without the functions in it that have a parameter of the name."""
    waiting = list(ast.iter_child_nodes(around))
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and _takes(item, name):
            waiting += [*item.args.defaults, *filter(None, item.args.kw_defaults)]
        else:
            waiting += ast.iter_child_nodes(item)


def _takes(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> bool:
    every = function.args
    plain = [*every.posonlyargs, *every.args, *every.kwonlyargs, every.vararg, every.kwarg]
    return any(item is not None and item.arg == name for item in plain)


def scope(node: ast.AST, ctx: Context) -> ast.AST:
    """The function around a node, or its module."""
    found = node
    for parent in ctx.parents(node):
        found = parent
        if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return parent
    return found


def _in_device_place(node: ast.Name, ctx: Context) -> bool:
    parent = ctx.parent(node)
    if isinstance(parent, ast.keyword):
        return parent.arg == "device"
    if isinstance(parent, ast.List):
        keyword = ctx.parent(parent)
        return isinstance(keyword, ast.keyword) and keyword.arg == "device_ids"
    if not isinstance(parent, ast.Call) or parent.args[:1] != [node]:
        return False
    last = _devices.identifier(parent.func)
    return last == "to" or last in _SETTERS or last in ("cuda", "ddp_device_ids")
