"""The packages that one file imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

from portkit import callgraph
from portkit.scopes import FUNCTIONS, Tree

_LINE = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<package>[A-Za-z_][\w.]*)[ \t]+import\b|import[ \t]+(?P<names>[^#\n]+))", re.M
)
_NAMES = re.compile(r"[\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*[\w.]+(?:[ \t]+as[ \t]+\w+)?)*[ \t]*;?$")


@dataclass
class Import:
    """How a file imports a package."""

    line: int  # of the first import
    count: int = 0
    guarded: int = 0  # of those, where the program goes on without the package
    lazy: int = 0  # of those, inside a function
    sure: bool = True  # False: found by its line, in a file that was not parsed


Imports = dict[tuple[str, ...], Import]  # first two parts of the name → how it is imported


def of_tree(tree: Tree, found: Imports) -> None:
    """Add the imports of a unit, except relative ones."""
    for node in tree.wanted:
        if isinstance(node, ast.Import):
            names: Iterable[str] = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{item.name}" for item in node.names]
        else:
            continue
        guarded = callgraph.may_fail(tree, node)
        lazy = any(isinstance(outer, FUNCTIONS) for outer in tree.ancestors(node))
        for parts in {tuple(name.split(".")[:2]) for name in names}:
            item = found.setdefault(parts, Import(node.lineno))
            item.count += 1
            item.guarded += guarded
            item.lazy += lazy


def of_text(text: str) -> Imports:
    """The imports of a Python file that was not parsed, by their lines; a docstring may hold such too."""
    found: Imports = {}
    if "import" not in text:
        return found
    for match in _LINE.finditer(text):
        names = [match["package"]] if match["package"] else _listed(match["names"])
        for name in names:
            parts = tuple(name.split(".")[:2])
            if parts not in found:
                found[parts] = Import(text.count("\n", 0, match.start()) + 1, sure=False)
            found[parts].count += 1
    return found


def _listed(names: str) -> list[str]:
    names = names.strip()
    return [name.split()[0] for name in names.rstrip("; ").split(",")] if _NAMES.match(names) else []
