"""Which tensor operators a program calls, and how often."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from portkit import coverage
from portkit.names import Names
from portkit.scopes import Tree

NODES: frozenset[type] = frozenset({ast.Call, ast.BinOp})
_OURS = ("portkit.runtime.ops.", "portkit.runtime.nn.")  # what a migrated program calls instead
_TABLE = Path(__file__).parent / "operators.txt"  # public tensor operators of torch, one a line


@cache
def known() -> frozenset[str]:
    """Qualified names of torch that are tensor operators (functions, methods of Tensor, nn modules)."""
    return frozenset(line for line in _TABLE.read_text(encoding="ascii").split("\n") if line)


@cache
def _methods() -> frozenset[str]:
    common = {name for kind in (str, list, dict, set, bytes) for name in dir(kind)}
    prefix = "torch.Tensor."
    return frozenset(name.removeprefix(prefix) for name in known() if name.startswith(prefix)) - common


def count(tree: Tree, names: Names) -> Iterator[str]:
    """Each call of a tensor operator in a unit, by qualified name: torch's, ours, and what ours replace.

    A method counts as that of a Tensor.  The type of a receiver is not known: names that built-in types have
    too (`split`, `sort`) are left out.
    """
    table, methods, replaced = known(), _methods(), coverage.kernels()
    for node in tree.wanted:
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.MatMult):
                yield "torch.matmul"
            continue
        if not isinstance(node, ast.Call):
            continue
        name = names.resolve(node.func)
        if name is not None:
            if name in table or name in replaced or name.startswith(_OURS):
                yield name
        elif isinstance(node.func, ast.Attribute) and node.func.attr in methods and not _own(node.func.value):
            yield f"torch.Tensor.{node.func.attr}"


def _own(receiver: ast.expr) -> bool:
    return isinstance(receiver, ast.Name) and receiver.id in ("self", "cls")
