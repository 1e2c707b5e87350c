"""What a module binds, gathered once a module: its imports, assignments and classes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache

from portkit.rule import Context


@dataclass(frozen=True)
class Index:
    """Names of a module, whatever scope binds them."""

    imported: frozenset[str]
    stored: frozenset[str]
    values: dict[str, list[ast.expr]] = field(hash=False)  # name → what is assigned to it, in order
    classes: dict[str, ast.ClassDef] = field(hash=False)
    imports: list[ast.Import | ast.ImportFrom] = field(hash=False)


def of(node: ast.AST, ctx: Context) -> Index:
    """The index of the module that a node stands in."""
    *_, module = ctx.parents(node)
    return build(module)


@lru_cache(maxsize=4)
def build(module: ast.AST) -> Index:
    """The index of a module."""
    imports: list[ast.Import | ast.ImportFrom] = []
    stored: set[str] = set()
    values: dict[str, list[ast.expr]] = {}
    classes: dict[str, ast.ClassDef] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                stored.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
    imported = {item.asname or item.name.partition(".")[0] for node in imports for item in node.names}
    return Index(frozenset(imported), frozenset(stored), values, classes, imports)
