"""How a kernel uses its parameters: as pointers, as sizes of tiles, as types, as conditions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_MEMORY = ("load", "store", "make_block_ptr", "make_tensor_descriptor")
_SIZES = (*_MEMORY[2:], "arange", "zeros", "full", "reshape", "broadcast_to", "view")


@dataclass
class Usage:
    """Names of a kernel by what they are used as."""

    pointers: set[str] = field(default_factory=set)
    integers: set[str] = field(default_factory=set)  # pointers to what becomes an index
    types: set[str] = field(default_factory=set)
    conditions: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # compared with a text
    sizes: set[str] = field(default_factory=set)
    maybe_none: set[str] = field(default_factory=set)
    axes: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    descriptors: set[str] = field(default_factory=set)


Callee = Callable[[ast.expr], "tuple[ast.FunctionDef, Usage] | None"]


def usage(kernel: ast.FunctionDef, callee: Callee) -> Usage:
    """What a kernel uses its parameters and locals as; `callee` tells of a function that it calls."""
    found = Usage()
    nodes = [item for statement in kernel.body for item in ast.walk(statement)]
    for node in nodes:
        _look(node, found)
    _through_calls(nodes, callee, found)
    _through_assignments(nodes, found)
    return found


def _look(node: ast.AST, found: Usage) -> None:
    if isinstance(node, ast.Call):
        _call(node, found)
    elif isinstance(node, ast.Compare):
        _compare(node, found)
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        found.conditions |= set(_conditions(node.test))
    elif isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
        for bound in node.iter.args:
            found.integers |= {part.id for part in ast.walk(bound) if isinstance(part, ast.Name)}
    elif isinstance(node, ast.Attribute) and node.attr == "element_ty":
        inner = node.value
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
            found.pointers.add(inner.value.id)


def _call(node: ast.Call, found: Usage) -> None:
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if isinstance(called, ast.Name):
        found.called.add(name)
    if isinstance(called, ast.Attribute) and name in ("load", "store", "gather", "scatter"):
        owner = called.value
        if isinstance(owner, ast.Name) and node.args and isinstance(node.args[0], ast.List):
            found.descriptors.add(owner.id)
    if (name in _MEMORY or name.startswith("atomic_")) and node.args:
        found.pointers |= set(_leaves(node.args[0])[:1])
    if (name in _MEMORY or name.startswith("atomic_")) and node.args and isinstance(node.args[0], ast.BinOp):
        _offsets(node.args[0], found)
    for word in node.keywords:
        if word.arg in ("dtype", "out_dtype") and isinstance(word.value, ast.Name):
            found.types.add(word.value.id)
        if word.arg == "axis" and isinstance(word.value, ast.Name):
            found.axes.add(word.value.id)
        if word.arg == "base" and name in _MEMORY:
            found.pointers |= set(_leaves(word.value)[:1])
    if name in ("to", "cast") and node.args and isinstance(node.args[-1], ast.Name):
        found.types.add(node.args[-1].id)
    if name in _SIZES:
        for item in [*node.args, *(word.value for word in node.keywords)]:
            found.sizes |= {part.id for part in ast.walk(item) if isinstance(part, ast.Name)}


def _compare(node: ast.Compare, found: Usage) -> None:
    sides = [node.left, *node.comparators]
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    for side in sides:
        if isinstance(side, ast.Constant) and side.value is None:
            found.maybe_none |= set(names)
        elif isinstance(side, ast.Constant) and isinstance(side.value, str):
            for name in names:
                found.texts.setdefault(name, side.value)


def _conditions(node: ast.expr) -> Iterator[str]:
    """Names that are conditions by themselves."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.BoolOp):
        for item in node.values:
            yield from _conditions(item)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _conditions(node.operand)


def _leaves(node: ast.expr) -> list[str]:
    """Names that are added up in an expression, from the left; those inside products are not."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return [*_leaves(node.left), *_leaves(node.right)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        return _leaves(node.func.value)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "advance" and node.args:
        return _leaves(node.args[0])
    if isinstance(node, ast.IfExp):
        return [*_leaves(node.body), *_leaves(node.orelse)]
    return [node.id] if isinstance(node, ast.Name) else []


def _offsets(node: ast.BinOp, found: Usage) -> None:
    """Names inside the offset of an access: they are integers."""
    first = _leaves(node)[:1]
    found.integers |= {
        part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part.id not in first
    }


def _through_calls(nodes: list[ast.AST], callee: Callee, found: Usage) -> None:
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        other = callee(node.func)
        if other is None:
            continue
        function, inner = other
        names = [a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]]
        pairs = [*zip(names, node.args, strict=False), *((w.arg or "", w.value) for w in node.keywords)]
        for name, value in pairs:
            if name in inner.pointers:
                found.pointers |= set(_leaves(value)[:1])
            if not isinstance(value, ast.Name):
                continue
            for kind in ("types", "sizes", "conditions", "axes", "integers", "maybe_none"):
                if name in getattr(inner, kind):
                    getattr(found, kind).add(value.id)
            if name in inner.texts:
                found.texts.setdefault(value.id, inner.texts[name])


def _through_assignments(nodes: list[ast.AST], found: Usage) -> None:
    """A local that is a pointer comes from one; what is loaded to be an index is an integer."""
    pairs = [
        (target.id, ast.BinOp(target, node.op, value) if isinstance(node, ast.AugAssign) else value)
        for node in nodes
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and (value := node.value) is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    ]
    for _ in range(len(pairs) + 1):
        before = len(found.pointers), len(found.integers)
        for name, value in pairs:
            if name in found.pointers:
                found.pointers |= set(_leaves(value)[:1]) - {name}
                if isinstance(value, ast.BinOp):
                    _offsets(value, found)
            if name in found.integers:
                found.integers |= _loaded_from(value)
                if isinstance(value, (ast.BinOp, ast.Name)):
                    found.integers |= {p.id for p in ast.walk(value) if isinstance(p, ast.Name)}
        if before == (len(found.pointers), len(found.integers)):
            break


def _loaded_from(value: ast.expr) -> set[str]:
    """The pointers that a value is loaded from."""
    return {
        leaf
        for node in ast.walk(value)
        if isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else "") == "load"
        and node.args
        for leaf in _leaves(node.args[0])[:1]
    }
