"""Attributes of a class that its methods share: who assigns `self.name`, and to what."""

from __future__ import annotations

import ast
from functools import cached_property

from portkit.scopes import FUNCTIONS, Bound, Scope, Tree

_RECEIVERS = ("self", "cls")


class Members:
    """Answers about the classes of one unit."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._owners: dict[ast.AST, ast.ClassDef | None] = {}

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The class whose object `self` or `cls` is in the receiver of `node`; None if `node` has another."""
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            return None
        if node.value.id not in _RECEIVERS:
            return None
        if node not in self._owners:
            self._owners[node] = self._owner(node.value)
        return self._owners[node]

    def _owner(self, receiver: ast.Name) -> ast.ClassDef | None:
        scope = self.tree.scope_of(receiver.id, receiver)
        method = scope.node if scope is not None else None
        if not isinstance(method, FUNCTIONS) or scope is None or len(scope.bindings[receiver.id]) != 1:
            return None
        plain = [*method.args.posonlyargs, *method.args.args]
        parent = self.tree.parents.get(method)
        first = bool(plain) and plain[0].arg == receiver.id
        return parent if first and isinstance(parent, ast.ClassDef) else None

    def value(self, node: ast.Attribute) -> ast.expr | None:
        """What `self.name` was assigned, if its class, and those that share its objects, do so just once."""
        owner = self.owner(node)
        if owner is None or not isinstance(node.ctx, ast.Load):
            return None
        mine = [use for use in self.tree.written.get(node.attr, ()) if self.shares(owner, self.owner(use))]
        if len(mine) != 1 or self.owner(mine[0]) is None or self._in_class(owner, node.attr):
            return None
        return self.tree.assigned(mine[0])

    def shares(self, owner: ast.ClassDef, other: ast.ClassDef | None) -> bool:
        """Whether an attribute of an object of `other` may be one of an object of `owner`.

        None stands for an object of which nothing is known.
        """
        return other is None or other is owner or bool(self._family(owner) & self._family(other))

    def _in_class(self, owner: ast.ClassDef, name: str) -> bool:
        """Whether the body of a class, or of a relative, binds a name: which one counts is not followed."""
        family = self._family(owner)
        return any(scope.node in family and name in scope.bindings for scope in self._classes)

    @cached_property
    def _classes(self) -> list[Scope]:
        return [scope for scope in self.tree.every_scope() if scope.is_class]

    def _family(self, owner: ast.ClassDef) -> frozenset[ast.AST]:
        return self._families.get(owner, frozenset((owner,)))

    @cached_property
    def _families(self) -> dict[ast.AST, frozenset[ast.AST]]:
        """Class → the classes of this unit that it, or a class derived from it, is derived from."""
        bases = {scope.node: self._bases(scope.node) for scope in self._classes}
        above = {node: _closure(node, bases) for node in bases}
        below: dict[ast.AST, set[ast.AST]] = {node: set() for node in bases}
        for ancestors in above.values():
            for ancestor in ancestors:
                below[ancestor] |= ancestors
        return {node: frozenset(found) for node, found in below.items()}

    def _bases(self, node: ast.AST) -> list[ast.AST]:
        assert isinstance(node, ast.ClassDef)
        found: list[ast.AST] = []
        for base in node.bases:
            if isinstance(base, ast.Name):
                found += [
                    item.node
                    for item in self.tree.bindings(base.id, base)
                    if item.how is Bound.DEFINITION and isinstance(item.node, ast.ClassDef)
                ]
        return found

    def class_value(self, node: ast.Attribute) -> ast.expr | None:
        """What `Class.name` or `self.name` is by the body of its class, if nothing else ever assigns it."""
        if node.attr in self.tree.written or not isinstance(node.ctx, ast.Load):
            return None
        owner = self.owner(node)
        if owner is None and isinstance(node.value, ast.Name):
            found = self.tree.bindings(node.value.id, node.value)
            only = found[0].node if len(found) == 1 and found[0].how is Bound.DEFINITION else None
            owner = only if isinstance(only, ast.ClassDef) else None
        if owner is None:
            return None
        holders = [scope for scope in self._classes if scope.node in self._family(owner)]
        bindings = [item for scope in holders for item in scope.bindings.get(node.attr, ())]
        own = self.tree.owned[owner].bindings.get(node.attr, ())
        return bindings[0].value if len(bindings) == 1 and own and own[0].how is Bound.VALUE else None


def _closure(start: ast.AST, bases: dict[ast.AST, list[ast.AST]]) -> set[ast.AST]:
    found: set[ast.AST] = set()
    stack = [start]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += bases.get(node, ())
    return found
