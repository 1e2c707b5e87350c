"""Values of constant expressions, as far as they can be told without running anything."""

from __future__ import annotations

import ast
from collections.abc import Callable

from portkit.members import Members
from portkit.scopes import Bound, Tree

_DEPTH = 24
Elsewhere = Callable[[ast.expr], object | None]  # the value that a name or attribute has by another module


class Constants:
    """Evaluates the expressions of one unit."""

    def __init__(self, tree: Tree, members: Members, elsewhere: Elsewhere) -> None:
        self.tree = tree
        self.members = members
        self.elsewhere = elsewhere

    def value(self, node: ast.AST, depth: int = 0) -> object | None:
        """The value of a constant expression, or None if it is not known."""
        if isinstance(node, ast.Constant):
            return node.value
        if depth > _DEPTH:
            return None
        if isinstance(node, ast.Name):
            return self._of_name(node, depth)
        if isinstance(node, ast.Attribute):
            value = self.members.value(node) or self.members.class_value(node)
            return self.value(value, depth + 1) if value is not None else self.elsewhere(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self.value(item, depth + 1) for item in node.elts]
            return None if any(item is None for item in items) else tuple(items)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self.value(node.operand, depth + 1)
            return -number if isinstance(number, (int, float)) else None
        if isinstance(node, ast.JoinedStr):
            return self._joined(node, depth)
        if isinstance(node, ast.BinOp):
            return self._combined(node, depth)
        return None

    def _of_name(self, node: ast.Name, depth: int) -> object | None:
        scope = self.tree.scope_of(node.id, node)
        if scope is None or (scope.is_module and self.tree.is_dynamic):
            return None if scope is not None else self.elsewhere(node)
        bindings = scope.bindings[node.id]
        if len(bindings) != 1:
            return None
        if bindings[0].how is Bound.IMPORT:
            return self.elsewhere(node)
        value = bindings[0].value if bindings[0].how is Bound.VALUE else None
        return self.value(value, depth + 1) if value is not None else None

    def _joined(self, node: ast.JoinedStr, depth: int) -> str | None:
        text = ""
        for part in node.values:
            plain = isinstance(part, ast.FormattedValue) and part.conversion == -1 and not part.format_spec
            value = self.value(part.value if plain else part, depth + 1)  # type: ignore[attr-defined]
            if not isinstance(value, (str, int)):
                return None
            text += str(value)
        return text

    def _combined(self, node: ast.BinOp, depth: int) -> object | None:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(node.op, ast.Mod) and isinstance(left, str) and isinstance(right, (str, int, tuple)):
            try:
                return left % right
            except (TypeError, ValueError):
                return None
        return None
