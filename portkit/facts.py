"""What one file offers to, and wants from, the other modules of its program: gathered in the same parse."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from portkit import settings
from portkit.flow import Flow, looks_like_device
from portkit.names import Names
from portkit.scopes import FUNCTIONS, Binding, Bound, Tree, walk

_BUILTINS = frozenset(dir(builtins))
_OTHERS = frozenset({"torch", "triton"})  # packages that nobody looks at as their own
_WORDS = ("cuda", "nccl")  # texts that matter across modules


class Kind(Enum):
    """What a module binds a name to."""

    IMPORT = "import"
    ALIAS = "alias"  # name = something that resolves
    TEXT = "text"  # name = "cuda"
    FUNCTION = "function"  # or class: `parameters` are those that a caller fills
    OTHER = "other"


@dataclass(frozen=True)
class Export:
    """One name of a module."""

    kind: Kind
    target: str = ""  # what an import or alias means, as the file resolves it; the value of a text
    via: str = ""  # the statement
    line: int = 0
    several: bool = False
    parameters: tuple[str, ...] = ()
    own_cuda: bool = False  # a class with a method `cuda` of its own, and no `to`


@dataclass(frozen=True)
class Moving:
    """Code of a module that calls code of others without leaving a compiler: all of it moves, or none."""

    stays: str  # why it can't be moved; empty if it can
    shares: tuple[str, ...]  # of `wants`: what it takes from other modules


@dataclass(frozen=True)
class Facts:
    """Of one module; small, and the same for the same text."""

    exports: tuple[tuple[str, Export], ...]
    stars: tuple[tuple[str, int], ...]  # modules that are star-imported, with the line
    public: tuple[str, ...] | None  # __all__, if it is plain
    wants: tuple[str, ...]  # names of what may be other modules of the program
    sinks: tuple[str, ...]  # of those: used as a device
    calls: tuple[str, ...]  # of those: called with a text that names CUDA
    patches: tuple[str, ...]  # of those: assigned to from here
    offers: tuple[str, ...] = ()  # options and fields whose value is a CUDA device
    takes: tuple[str, ...] = ()  # settings that are used as a device: `args.where` → "where"
    moving: Moving | None = None  # code that moves only together with that of other modules


OTHER = Export(Kind.OTHER)


def gather(tree: Tree, names: Names, flow: Flow, moving: Moving | None = None) -> Facts:
    """The facts of a parsed file."""
    wants, sinks, calls, patches = _wanted(tree, names, flow)
    return Facts(
        exports=tuple((name, _export(name, found, names)) for name, found in tree.top.bindings.items()),
        stars=tuple((_package(item), item.lineno) for item in tree.star_imports),
        public=_public(tree),
        wants=tuple(sorted(wants)),
        sinks=tuple(sorted(sinks)),
        calls=tuple(sorted(calls)),
        patches=tuple(sorted(patches)),
        offers=tuple(sorted(settings.offered(tree))),
        takes=tuple(sorted(settings.taken(tree, flow))),
        moving=moving,
    )


def taken_by(nodes: Iterable[ast.AST], tree: Tree, names: Names) -> tuple[str, ...]:
    """The names that pieces of code take from what may be other modules of the program."""
    stars = [package for item in tree.star_imports if may_be_own(package := _package(item))]
    unbound = set(_unbound(tree)) if stars else set()
    found: set[str] = set()
    for use in (item for node in nodes for item in walk(node) if isinstance(item, ast.Name)):
        target = names.resolve(use)
        if target is not None and may_be_own(target):
            found.add(_longest(tree, use, target)[0])
        elif use.id in unbound:
            found |= {f"{star}{'' if star.endswith('.') else '.'}{use.id}" for star in stars}
    return tuple(sorted(found))


def _package(item: ast.ImportFrom) -> str:
    return "." * item.level + (item.module or "")


# --- what it offers ----------------------------------------------------------------------------------


def _export(name: str, bindings: list[Binding], names: Names) -> Export:
    if len(bindings) == 1 and bindings[0].how is Bound.DEFINITION:
        node = bindings[0].node
        return Export(
            Kind.FUNCTION,
            line=getattr(node, "lineno", 0),
            parameters=_parameters(node, names.tree),
            own_cuda=isinstance(node, ast.ClassDef) and _moves_itself(node, names.tree),
        )
    at_end = ast.Name(name, ast.Load())
    names.tree.scopes[at_end] = names.tree.top
    at_end.lineno = sys.maxsize
    decided = names.deciding(at_end)
    several = names.has_several_meanings(at_end)
    if decided is None:
        return OTHER
    line = getattr(decided.node, "lineno", 0)
    if decided.how is Bound.IMPORT:
        return Export(Kind.IMPORT, decided.target, _text(decided, names.tree, name), line, several)
    value = decided.value
    assert value is not None
    target = names.resolve(value)
    if target is not None and target.partition(".")[0] not in _BUILTINS and not names.through_partial(value):
        if isinstance(value, ast.Call):
            return OTHER  # getattr and the like: rare, and not worth the doubt
        return Export(Kind.ALIAS, target, _text(decided, names.tree, name), line)
    text = names.constant(at_end)
    if isinstance(text, str) and any(word in text for word in _WORDS):
        return Export(Kind.TEXT, text, "", line)
    return OTHER


def _text(binding: Binding, tree: Tree, name: str) -> str:
    """The statement that binds a name, in one line."""
    node: ast.AST = binding.node
    while not isinstance(node, ast.stmt) and node in tree.parents:
        node = tree.parents[node]
    if isinstance(node, ast.ImportFrom):
        wanted = [item for item in node.names if (item.asname or item.name) == name]
        return f"from {_package(node)} import {ast.unparse(wanted[0]) if wanted else name}"
    if isinstance(node, ast.Import):
        wanted = [item for item in node.names if (item.asname or item.name.partition(".")[0]) == name]
        return f"import {ast.unparse(wanted[0]) if wanted else name}"
    return ast.unparse(node)[:120]


def _moves_itself(node: ast.ClassDef, tree: Tree) -> bool:
    bindings = tree.owned[node].bindings
    return "cuda" in bindings and "to" not in bindings


def _parameters(node: ast.AST, tree: Tree) -> tuple[str, ...]:
    """Names of the positional parameters that a caller fills, where one of them is a device."""
    bound = 0
    if isinstance(node, ast.ClassDef):
        inits = tree.owned[node].bindings.get("__init__", [])
        node, bound = (inits[0].node if len(inits) == 1 else node), 1
    if not isinstance(node, FUNCTIONS):
        return ()
    found = tuple(item.arg for item in (*node.args.posonlyargs, *node.args.args))[bound:]
    return found if any(map(looks_like_device, found)) else ()


def _public(tree: Tree) -> tuple[str, ...] | None:
    bindings = tree.top.bindings.get("__all__", [])
    value = bindings[0].value if len(bindings) == 1 else None
    if not isinstance(value, (ast.List, ast.Tuple)):
        return None
    items = [item.value for item in value.elts if isinstance(item, ast.Constant)]
    texts = tuple(item for item in items if isinstance(item, str))
    return texts if len(texts) == len(value.elts) else None


# --- what it wants -----------------------------------------------------------------------------------


def may_be_own(target: str) -> bool:
    """Whether an imported name may be one of the program's own modules, or belong to one.

    A CUDA library may be the program that is looked at: only `project.py` can tell.
    """
    root = target.partition(".")[0]
    return not root or (root not in _OTHERS and root not in sys.stdlib_module_names)


def _wanted(tree: Tree, names: Names, flow: Flow) -> tuple[set[str], set[str], set[str], set[str]]:
    wants: set[str] = set()
    sinks: set[str] = set()
    calls: set[str] = set()
    patches: set[str] = set()
    for local, target, scope in _own_imports(tree):
        wants.add(target)
        for use in tree.loads.get(local, ()):
            if tree.scope_of(local, use) is not scope:
                continue
            name, last = _longest(tree, use, target)
            wants.add(name)
            _note(tree, flow, name, last, sinks, calls, patches)
    own = [_package(item) for item in tree.star_imports if may_be_own(_package(item))]
    for star in own:
        wants.add(star)
        dot = "" if star.endswith(".") else "."
        wants |= {f"{star}{dot}{name}" for name in _unbound(tree)}
    return wants, sinks, calls, patches


def _own_imports(tree: Tree) -> Iterator[tuple[str, str, object]]:
    for scope in tree.every_scope():
        for local, bindings in scope.bindings.items():
            for item in bindings:
                if item.how is Bound.IMPORT and may_be_own(item.target):
                    yield local, item.target, scope


def _longest(tree: Tree, use: ast.AST, name: str) -> tuple[str, ast.AST]:
    """The name with the attributes behind it: `utils` → `utils.devices.sync`."""
    parent = tree.parents.get(use)
    while isinstance(parent, ast.Attribute):
        name, use, parent = f"{name}.{parent.attr}", parent, tree.parents.get(parent)
    return name, use


def _note(
    tree: Tree, flow: Flow, name: str, use: ast.AST, sinks: set[str], calls: set[str], patches: set[str]
) -> None:
    if isinstance(use, ast.Attribute) and not isinstance(use.ctx, ast.Load):
        patches.add(name)
        return
    parent = tree.parents.get(use)
    if isinstance(parent, ast.Call) and parent.func is use:
        if any(isinstance(a, ast.Constant) and isinstance(a.value, str) and "cuda" in a.value
               for a in parent.args):  # fmt: skip
            calls.add(name)
        return
    if not looks_like_device(name.rpartition(".")[2]) and flow.is_device_sink(use):
        sinks.add(name)


def _unbound(tree: Tree) -> Iterator[str]:
    """Names that the unit uses and never binds: they come through star imports."""
    bound = {name for scope in tree.every_scope() for name in scope.bindings}
    return (name for name in tree.loads if name not in bound and name not in _BUILTINS)
