"""Names of a file behind which a CUDA extension is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from portkit import branches
from portkit.rule import Context
from portkit.scopes import walk

_LOADERS = "torch.utils.cpp_extension.load"


def is_reached(test: ast.AST, when_true: bool, ctx: Context) -> bool:
    """Whether the code that runs if `test` is true (or false) calls a CUDA extension of the file."""
    nodes = list(_branch(test, when_true, ctx))
    if not nodes:
        return False
    *_, module = ctx.parents(test)
    names = _names(module, frozenset(_loaded(module, ctx)))
    return any(isinstance(item, ast.Name) and item.id in names for node in nodes for item in walk(node))


def _branch(test: ast.AST, when_true: bool, ctx: Context) -> Iterator[ast.AST]:
    parent = ctx.parent(test)
    if isinstance(parent, (ast.If, ast.IfExp)) and parent.test is test:
        yield from branches.taken(parent, when_true, ctx)


def _loaded(module: ast.AST, ctx: Context) -> Iterator[str]:
    """Names that hold a compiled extension: `x = load(...)`, `import x_cuda`."""
    for item in walk(module):
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call):
            if (ctx.resolve(item.value.func) or "").startswith(_LOADERS):
                yield from (target.id for target in item.targets if isinstance(target, ast.Name))
        elif isinstance(item, (ast.Import, ast.ImportFrom)):
            for name in item.names:
                if name.name.endswith("_cuda") or (getattr(item, "module", "") or "").endswith("_cuda"):
                    yield name.asname or name.name.partition(".")[0]


@lru_cache(maxsize=4)
def _names(module: ast.AST, loaded: frozenset[str]) -> frozenset[str]:
    """The extensions, and the functions and classes of the module that use them, one through another."""
    owners = [
        item for item in getattr(module, "body", ()) if isinstance(item, (ast.FunctionDef, ast.ClassDef))
    ]
    uses = {item.name: {name.id for name in walk(item) if isinstance(name, ast.Name)} for item in owners}
    known = set(loaded)
    while True:
        more = {name for name, used in uses.items() if name not in known and used & known}
        if not more or not loaded:
            return frozenset(known)
        known |= more
