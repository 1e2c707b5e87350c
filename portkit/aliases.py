"""How a written name comes to mean its qualified name: the statements in between, in order."""

from __future__ import annotations

import ast
from collections.abc import Callable

from portkit.finding import Alias
from portkit.names import LATE_IMPORTS, Names
from portkit.scopes import Binding, Bound

_STEPS = 24
_LONG = 120  # characters of a statement that are shown


class Aliases:
    """Explains the names of one unit; `source` gives the text of a node."""

    def __init__(self, names: Names, source: Callable[[ast.AST], str]) -> None:
        self.names = names
        self.source = source

    def of(self, node: ast.AST) -> tuple[Alias, ...]:
        """The imports and assignments through which `node` got its meaning; none where it has none."""
        found: list[Alias] = []
        current: ast.AST | None = node
        while current is not None and len(found) < _STEPS and self.names.resolve(current) is not None:
            current = self._step(current, found)
        return tuple(found)

    def _step(self, node: ast.AST, found: list[Alias]) -> ast.AST | None:
        """Add what gives `node` its meaning, and return the expression that is to be explained next."""
        meaning = self.names.elsewhere.get(node)
        if meaning is None:
            return self._here(node, found)
        rest = self._here(node, found)
        while rest is not None:
            rest = self._step(rest, found)
        found += meaning.steps
        return None

    def _here(self, node: ast.AST, found: list[Alias]) -> ast.AST | None:
        """The same, by this file alone."""
        if isinstance(node, ast.Name):
            binding = self.names.deciding(node)
            if binding is not None:
                return self._bound(node, binding, found)
            self._star(node, found)
            return None
        if isinstance(node, ast.Attribute):
            if self.names.resolve(node.value) is not None:
                return node.value
            value = self.names.members.value(node) or self.names.members.class_value(node)
            if value is not None:
                found.append(Alias(self.source(node), self._statement(value), value.lineno))
            return value
        if isinstance(node, (ast.NamedExpr, ast.Await)):
            return node.value
        if isinstance(node, ast.IfExp):
            return node.body if self.names.resolve(node.body) is not None else node.orelse
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "__import__":
                return None
            if node.args and self.names.resolve(node.func) not in LATE_IMPORTS:
                return node.args[0]  # of getattr or partial
        return None

    def _bound(self, node: ast.Name, binding: Binding, found: list[Alias]) -> ast.AST | None:
        line = getattr(binding.node, "lineno", 0)
        if binding.how is Bound.IMPORT:
            found.append(Alias(node.id, _import(binding, node.id), line))
            return None
        if binding.value is not None:
            found.append(Alias(node.id, self._statement(binding.value), line))
        return binding.value

    def _star(self, node: ast.Name, found: list[Alias]) -> None:
        statement = self.names.star_import(node)
        if statement is not None:
            found.append(Alias(node.id, _line(self.source(statement)), statement.lineno))

    def _statement(self, value: ast.AST) -> str:
        tree = self.names.tree
        holders = (item for item in tree.ancestors(value) if isinstance(item, ast.stmt))
        return _line(self.source(next(holders, value)))


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _import(binding: Binding, local: str) -> str:
    """The part of an import statement that brings one name."""
    statement = binding.node
    if isinstance(statement, ast.ImportFrom):
        package = "." * statement.level + (statement.module or "")
        names = [item for item in statement.names if (item.asname or item.name) == local]
        return f"from {package} import {_as(names[0]) if names else local}"
    assert isinstance(statement, ast.Import)
    names = [item for item in statement.names if (item.asname or item.name.partition(".")[0]) == local]
    return f"import {_as(names[0]) if names else local}"


def _as(item: ast.alias) -> str:
    return f"{item.name} as {item.asname}" if item.asname is not None else item.name
