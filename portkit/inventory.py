"""Which tensor operators a program uses, where, and how sure that is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import NamedTuple

from portkit import coverage, tensors
from portkit.names import Names
from portkit.scopes import Tree

NODES: frozenset[type] = frozenset({ast.Call, ast.BinOp, ast.Import, ast.ImportFrom})
_OURS = ("portkit.runtime.ops.", "portkit.runtime.nn.")  # what a migrated program calls instead
_METHOD = "torch.Tensor."
_ASKED = ("isinstance", "issubclass", "type", "hasattr", "getattr", "print", "id", "repr", "str")


class Seen(str, Enum):
    """What shows that a place uses an operator."""

    NAME = "name"  # the callee resolves to it
    RECEIVER = "receiver"  # a method of a value that is visibly a tensor
    METHOD = "method"  # a method that only tensors have, of a value of unknown type
    UNKNOWN = "unknown"  # a method that tensors have too, of a value of unknown type
    PASSED = "passed"  # the operator is passed on, to be called or made elsewhere


SURE = frozenset({Seen.NAME, Seen.RECEIVER})


class Use(NamedTuple):
    """One place that uses a tensor operator."""

    name: str  # qualified name in torch
    seen: Seen
    line: int
    cell: int | None


@cache
def _methods() -> frozenset[str]:
    return frozenset(name.removeprefix(_METHOD) for name in tensors.operators() if name.startswith(_METHOD))


@cache
def _common() -> frozenset[str]:
    """Methods that built-in types have too: of a value of unknown type they say nothing."""
    return frozenset(name for kind in (str, list, dict, set, bytes) for name in dir(kind))


@cache
def _last_names() -> frozenset[str]:
    """The last names of operators that are functions or modules."""
    return frozenset(name.rpartition(".")[2] for name in tensors.operators() if not name.startswith(_METHOD))


def uses(tree: Tree, names: Names, cell: int | None) -> Iterator[Use]:
    """Each use of a tensor operator in a unit, by qualified name: torch's, ours, and what ours replace."""
    types = tensors.Tensors(names)
    for node in tree.wanted:
        if isinstance(node, ast.Call):
            found = _called(node, names, types)
            if found is not None:
                yield Use(*found, node.func.end_lineno or node.lineno, cell)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            seen = _product(node, types)
            if seen is not None:
                yield Use("torch.matmul", seen, node.lineno, cell)
    yield from _passed_on(tree, names, cell)


def _called(node: ast.Call, names: Names, types: tensors.Tensors) -> tuple[str, Seen] | None:
    function = node.func
    name = names.resolve(function)
    if name is not None:
        return (name, Seen.NAME) if is_operator(name) else None
    if not isinstance(function, ast.Attribute) or function.attr not in _methods() or _own(function.value):
        return None
    kind = types.of(function.value)
    if kind is tensors.Type.TENSOR:
        return _METHOD + function.attr, Seen.RECEIVER
    if kind is not tensors.Type.UNKNOWN or function.attr in _common():
        return None
    return _METHOD + function.attr, Seen.METHOD if function.attr in tensors.only_methods() else Seen.UNKNOWN


def is_operator(name: str) -> bool:
    """Whether a qualified name is a tensor operator: torch's, ours, or one that ours replaces."""
    return name in tensors.operators() or name in coverage.kernels() or name.startswith(_OURS)


def _product(node: ast.BinOp, types: tensors.Tensors) -> Seen | None:
    kind = types.of(node)
    if kind is tensors.Type.TENSOR:
        return Seen.RECEIVER
    return Seen.UNKNOWN if kind is tensors.Type.UNKNOWN else None


def _own(receiver: ast.expr) -> bool:
    """`self.norm()` and `super().norm()` are methods of the class around them."""
    if isinstance(receiver, ast.Call):
        receiver = receiver.func
        return isinstance(receiver, ast.Name) and receiver.id == "super"
    return isinstance(receiver, ast.Name) and receiver.id in ("self", "cls")


def _passed_on(tree: Tree, names: Names, cell: int | None) -> Iterator[Use]:
    """`Block(norm_layer=nn.LayerNorm)`, `def f(act=F.gelu)`, `{"gelu": nn.GELU}`."""
    for attr in _last_names() & tree.attributes.keys():
        for use in tree.attributes[attr]:
            if _is_passed(tree, use):
                name = names.resolve(use)
                if name is not None and is_operator(name):
                    yield Use(name, Seen.PASSED, use.lineno, cell)
    for local, bindings in tree.top.bindings.items():
        if any(item.target in tensors.operators() for item in bindings):
            for word in tree.loads.get(local, ()):
                if _is_passed(tree, word):
                    name = names.resolve(word)
                    if name is not None and is_operator(name):
                        yield Use(name, Seen.PASSED, word.lineno, cell)


def _is_passed(tree: Tree, use: ast.expr) -> bool:
    parent = tree.parents.get(use)
    if isinstance(parent, ast.Call):
        asked = isinstance(parent.func, ast.Name) and parent.func.id in _ASKED
        return parent.func is not use and not asked
    if isinstance(parent, (ast.Tuple, ast.List)):
        holder = tree.parents.get(parent)
        if isinstance(holder, ast.Call):
            return not (isinstance(holder.func, ast.Name) and holder.func.id in _ASKED)
        listed = isinstance(parent, ast.List) and isinstance(holder, ast.Assign)
        return listed or isinstance(holder, (ast.keyword, ast.Return, ast.Dict))
    if isinstance(parent, ast.Dict):
        return use in parent.values
    return isinstance(parent, (ast.keyword, ast.arguments, ast.IfExp, ast.Return))
