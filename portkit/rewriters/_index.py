"""What a module binds, gathered once a module: its imports, assignments and classes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache

from portkit.rule import Context
from portkit.scopes import walk


@dataclass(frozen=True)
class Index:
    """Names of a module, whatever scope binds them."""

    module: ast.AST
    imported: frozenset[str]
    stored: frozenset[str]
    values: dict[str, list[ast.expr]] = field(hash=False)  # name → what is assigned to it, in order
    classes: dict[str, ast.ClassDef] = field(hash=False)
    imports: list[ast.Import | ast.ImportFrom] = field(hash=False)


def of(node: ast.AST, ctx: Context) -> Index:
    """The index of the module that a node stands in."""
    found = _of_unit(ctx)  # type: ignore[arg-type]  # hashed by identity
    module = node
    for outer in ctx.parents(node):
        module = outer
    return found if module is found.module else build(module)  # one of an earlier cell


@lru_cache(maxsize=4)
def _of_unit(ctx: Context) -> Index:
    nodes = list(ctx.nodes())
    module = nodes[0]
    while (outer := ctx.parent(module)) is not None:
        module = outer
    return _gathered(module, nodes)


@lru_cache(maxsize=4)
def build(module: ast.AST) -> Index:
    """The index of a module."""
    return _gathered(module, walk(module))


def _gathered(module: ast.AST, nodes: list[ast.AST]) -> Index:
    imports: list[ast.Import | ast.ImportFrom] = []
    stored: set[str] = set()
    values: dict[str, list[ast.expr]] = {}
    classes: dict[str, ast.ClassDef] = {}
    for node in nodes:
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
    return Index(module, frozenset(imported), frozenset(stored), values, classes, imports)


def classes_of(receiver: ast.expr, ctx: Context) -> list[ast.ClassDef]:
    """The classes of this file that a receiver may be an object of, as far as can be seen."""
    if isinstance(receiver, ast.Name) and receiver.id in ("self", "cls"):
        return [item for item in ctx.parents(receiver) if isinstance(item, ast.ClassDef)][:1]
    classes = of(receiver, ctx).classes
    callees = [call.func for call in makers(receiver, ctx)] if classes else []
    return [classes[f.id] for f in callees if isinstance(f, ast.Name) and f.id in classes]


def makers(receiver: ast.expr, ctx: Context) -> list[ast.Call]:
    """The calls that a receiver may be the result of: itself, or what its name is given."""
    values = [receiver]
    if isinstance(receiver, ast.Name):
        values = of(receiver, ctx).values.get(receiver.id, [])
    elif isinstance(receiver, ast.Attribute):
        values = kept_in_object(receiver, ctx)
    return [value for value in values if isinstance(value, ast.Call)]


def kept_in_object(node: ast.Attribute, ctx: Context) -> list[ast.expr]:
    """What the methods of the class around `self.name` assign to it; empty outside a class."""
    if not isinstance(node.value, ast.Name) or node.value.id != "self":
        return []
    owner = next((item for item in ctx.parents(node) if isinstance(item, ast.ClassDef)), None)
    return _kept(owner).get(node.attr, []) if owner is not None else []


@lru_cache(maxsize=8)
def _kept(owner: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """What a class assigns to attributes of `self`, by name."""
    found: dict[str, list[ast.expr]] = {}
    for item in walk(owner):
        if not isinstance(item, ast.Assign):
            continue
        for target in item.targets:
            holder = target.value if isinstance(target, ast.Attribute) else None
            if isinstance(target, ast.Attribute) and isinstance(holder, ast.Name) and holder.id == "self":
                found.setdefault(target.attr, []).append(item.value)
    return found


def defines(owner: ast.ClassDef, name: str) -> bool:
    """Whether a class has a method, property or attribute of its own with a name."""
    for item in owner.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == name:
            return True
        targets = item.targets if isinstance(item, ast.Assign) else []
        if isinstance(item, ast.AnnAssign):
            targets = [item.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False
