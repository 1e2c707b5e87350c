"""Numbers of devices that are numbers of processes, or divide something: they have to be at least one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from portkit.rewriters import _ordinals
from portkit.rule import Context
from portkit.scopes import walk

_DIVISIONS = (ast.Mod, ast.FloorDiv, ast.Div)
_SPAWN = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn"})
_ENTRY, _NPROCS = 0, 2  # positions of the parameters of spawn(fn, args, nprocs)


def at_least_one(call: ast.Call, ctx: Context) -> bool:
    """Whether a number of devices is used where nought makes no sense: as a divisor, or to start processes.

    A name stands for the number if each of its uses is such a place, or harmless to it; a name that is
    tested (`if n_gpus == 0`) or given back keeps the true number.
    """
    if _is_place(call, ctx):
        return True
    statement = ctx.parent(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return False
    stores, loads = _ordinals.uses(target.id, statement, ctx)
    places = [item for item in loads if _is_place(item, ctx)]
    return stores == 1 and bool(places) and all(item in places or _is_harmless(item, ctx) for item in loads)


def _is_place(node: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(node)
    if isinstance(parent, ast.BinOp):
        return parent.right is node and isinstance(parent.op, _DIVISIONS)
    if isinstance(parent, ast.keyword):
        call = ctx.parent(parent)
        return parent.arg == "nprocs" and _is_spawn(call, ctx)
    if isinstance(parent, ast.Call) and parent.args[_NPROCS : _NPROCS + 1] == [node]:
        return _is_spawn(parent, ctx)
    return False


def _is_spawn(node: ast.AST | None, ctx: Context) -> bool:
    return isinstance(node, ast.Call) and ctx.resolve(node.func) in _SPAWN


def _is_harmless(node: ast.expr, ctx: Context) -> bool:
    """Whether one in the place of nought makes nothing worse: a factor, a message, an argument passed on."""
    parent = ctx.parent(node)
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, (ast.Mult, *_DIVISIONS))
    if isinstance(parent, ast.Tuple):
        return any(_is_spawn(item, ctx) for item in _two_up(parent, ctx))
    if isinstance(parent, ast.FormattedValue):
        parent = ctx.parent(ctx.parent(parent) or parent)  # the f-string's own place
        return isinstance(parent, ast.Call) and isinstance(ctx.parent(parent), ast.Expr)
    if not isinstance(parent, ast.Call) or node not in parent.args:
        return False
    return _starts(parent, ctx)


def _starts(call: ast.Call, ctx: Context) -> bool:
    """Whether a call is of a function that processes are started with, in another place of the same scope."""
    name = ast.dump(call.func)
    return any(
        item.args and ast.dump(item.args[_ENTRY]) == name
        for item in walk(_ordinals.scope(call, ctx))
        if isinstance(item, ast.Call) and _is_spawn(item, ctx)
    )


def _two_up(node: ast.AST, ctx: Context) -> Iterator[ast.AST]:
    """What a node stands in, and what that stands in."""
    for index, parent in enumerate(ctx.parents(node)):
        if index == 2:
            return
        yield parent
