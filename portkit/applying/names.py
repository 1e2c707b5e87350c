"""Whether a file still uses a name: in code, in string annotations, in `__all__`, in type comments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from portkit.scopes import walk

_TYPE_COMMENT = re.compile(r"#\s*type:\s*(?!ignore)([^\r\n]*)")
_TYPE_CALLS = frozenset({"cast", "TypeVar", "NewType", "ForwardRef"})


def is_used(module: ast.Module, text: str, name: str, *, dotted: bool = False) -> bool:
    """Whether anything but an import mentions `name`.

    `dotted` says that the import bound a package by a submodule (`import a.b`), so that other imports of the
    package keep the name alive but not the import.
    """
    for node in walk(module):
        if isinstance(node, ast.Name) and node.id == name:
            return True
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return True
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    if any(word.search(value) for value in _quoted(module)):
        return True
    return any(word.search(match.group(1)) for match in _TYPE_COMMENT.finditer(text))


def _quoted(module: ast.Module) -> Iterator[str]:
    """Strings that hold names: annotations, arguments of typing functions, `__all__`."""
    for node in walk(module):
        for holder in _annotations(node):
            for child in walk(holder):
                if isinstance(child, ast.Constant) and isinstance(child.value, str):
                    yield child.value


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
        yield node.annotation
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        yield node.returns
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in _TYPE_CALLS:
            yield node
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            yield node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        receiver = node.func.value
        if isinstance(receiver, ast.Name) and receiver.id == "__all__":
            yield node
