"""What the functions and classes of `portkit.runtime` take, read from their source: nothing is imported."""

from __future__ import annotations

import ast
from functools import cache

from portkit import tables
from portkit.rewriters import _calls, _sites
from portkit.rule import Context

_MODULES = ("devices", "memory", "random", "streams", "distributed", "amp", "ranges")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def misfit(node: ast.expr, target: str, ctx: Context) -> str:
    """Why the call of which `node` is the callee does not fit `target` ("pk.Event"); empty if it does."""
    call = _sites.is_called(node, ctx)
    arguments = _known().get(target.rpartition(".")[2]) if target.startswith("pk.") else None
    if call is None or arguments is None or _calls.is_starred(call):
        return ""
    bound = _calls.bind(call, _calls.parameters(arguments))
    return f"{target} does not take this call: {bound}." if isinstance(bound, str) else ""


@cache
def _known() -> dict[str, ast.arguments]:
    """Name → parameters, of those that take no `*args` or `**kwargs`."""
    found: dict[str, ast.arguments] = {}
    for module in _MODULES:
        tree = ast.parse((tables.RUNTIME / f"{module}.py").read_text(encoding="utf-8"))
        for item in tree.body:
            arguments = _parameters(item)
            if arguments is not None and arguments.vararg is None and arguments.kwarg is None:
                found[getattr(item, "name", "")] = arguments
    return found


def _parameters(item: ast.stmt) -> ast.arguments | None:
    if isinstance(item, _FUNCTIONS):
        return item.args
    if not isinstance(item, ast.ClassDef):
        return None
    makers = {method.name: method for method in item.body if isinstance(method, _FUNCTIONS)}
    maker = makers.get("__new__") or makers.get("__init__")
    if maker is None:
        return None
    plain = maker.args.args[1:]  # without self or cls
    return ast.arguments(
        posonlyargs=[],
        args=plain,
        vararg=maker.args.vararg,
        kwonlyargs=maker.args.kwonlyargs,
        kw_defaults=maker.args.kw_defaults,
        kwarg=maker.args.kwarg,
        defaults=maker.args.defaults,
    )
