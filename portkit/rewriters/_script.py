"""Code that TorchScript compiles, in which the runtime's helpers can't be called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from portkit.rewriters import _index
from portkit.rule import Context
from portkit.scopes import FUNCTIONS, walk

_SCRIPT = "torch.jit.script"
_COMPILED = frozenset({_SCRIPT, "torch.jit.script_method", "torch.jit.script_if_tracing", "torch.jit.export"})
_LEFT_OUT = frozenset({"torch.jit.ignore", "torch.jit.unused"})
_INSIDE = frozenset({"torch.jit.is_scripting", "torch.jit.annotate"})


def in_torchscript(node: ast.AST, ctx: Context) -> bool:
    """Whether a node stands in a function or class that TorchScript compiles, as far as the file shows.

    Signs are decorators (`@torch.jit.script`, or `@torch.jit.export` on another method of the class), what
    the code itself asks (`torch.jit.is_scripting()`), and `torch.jit.script(f)`, `torch.jit.script(Model())`.
    """
    if "jit" not in ctx.text:
        return False
    child: ast.AST = node
    for parent in ctx.parents(node):
        if isinstance(parent, ast.If) and _is_eager(parent, child, ctx):
            return False
        if isinstance(parent, FUNCTIONS):
            names = set(_decorators(parent, ctx))
            if names & _LEFT_OUT or parent.name == "__init__":  # the constructor of a module is not compiled
                return False
            if names & _COMPILED or _asks(parent, ctx) or _is_scripted(parent, ctx):
                return True
        elif isinstance(parent, ast.ClassDef):
            methods = [item for item in parent.body if isinstance(item, FUNCTIONS)]
            signs = {name for item in methods for name in _decorators(item, ctx)}
            return bool(signs & (_COMPILED | _LEFT_OUT)) or _is_scripted(parent, ctx)
        child = parent
    return False


def _decorators(function: ast.FunctionDef | ast.AsyncFunctionDef, ctx: Context) -> Iterator[str]:
    for item in function.decorator_list:
        yield ctx.resolve(item.func if isinstance(item, ast.Call) else item) or ""


def _asks(function: ast.AST, ctx: Context) -> bool:
    """Whether a function asks whether it is compiled, or has annotations for the compiler alone."""
    return any(
        isinstance(item.func, (ast.Attribute, ast.Name)) and ctx.resolve(item.func) in _INSIDE
        for item in _calls(function)
    )


@lru_cache(maxsize=64)
def _calls(node: ast.AST) -> tuple[ast.Call, ...]:
    return tuple(item for item in walk(node) if isinstance(item, ast.Call))


def _is_eager(branch: ast.If, child: ast.AST, ctx: Context) -> bool:
    """Whether `child` is only run by Python: it stands in `if not torch.jit.is_scripting():`."""
    test, inside = branch.test, child in branch.body
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    else:
        inside = child in branch.orelse
    return inside and isinstance(test, ast.Call) and ctx.resolve(test.func) == "torch.jit.is_scripting"


def _is_scripted(owner: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, ctx: Context) -> bool:
    """Whether the file hands a function, a class or an object of it to `torch.jit.script`."""
    *_, module = ctx.parents(owner)
    for call in _calls(module):
        if not call.args or not isinstance(call.func, (ast.Attribute, ast.Name)):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
        if name != "script" or ctx.resolve(call.func) != _SCRIPT:
            continue
        given = call.args[0]
        if isinstance(given, ast.Name) and given.id == owner.name:
            return True
        if isinstance(owner, ast.ClassDef) and owner in _index.classes_of(given, ctx):
            return True
    return False
