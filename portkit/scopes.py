"""Who binds which name where: one walk over a syntax tree that notes parents, scopes, bindings and uses."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from portkit import helpers


class Bound(Enum):
    """How a name came to be bound."""

    IMPORT = "import"
    STAR = "star"
    VALUE = "value"  # name = expression
    PARAMETER = "parameter"
    DEFINITION = "definition"  # def or class
    OTHER = "other"  # for target, with target, del, augmented assignment, pattern, ...


@dataclass(eq=False)  # not frozen: there are very many, and a frozen one takes three times as long to make
class Binding:
    """One place where a name is bound."""

    how: Bound
    node: ast.AST
    value: ast.expr | None = None  # what was assigned, or the default of a parameter
    target: str = ""  # qualified name that an import brings


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension, and the names that it binds."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outside: dict[str, str] = field(default_factory=dict)  # name → "global" | "nonlocal"
    stars: list[str] = field(default_factory=list)  # packages that are star-imported here

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def is_module(self) -> bool:
        return self.parent is None

    def bind(self, name: str, binding: Binding) -> None:
        """Add a binding of `name`, in the scope that a `global` statement sends it to."""
        scope = self
        if self.outside.get(name) == "global":
            scope = self.module()
        elif self.outside.get(name) == "nonlocal":
            scope = self._around(name)
        scope.bindings.setdefault(name, []).append(binding)

    def _around(self, name: str) -> Scope:
        """The nearest function around this one that binds `name`."""
        scope = self.parent
        while scope is not None and not scope.is_module:
            if not scope.is_class and name in scope.bindings:
                return scope
            scope = scope.parent
        return self.parent or self

    def module(self) -> Scope:
        """The outermost scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Tree:
    """A parsed unit with its parents, scopes and uses; built by one walk, in source order."""

    def __init__(
        self, module: ast.Module, wanted: frozenset[type] = frozenset(), prelude: Sequence[ast.stmt] = ()
    ) -> None:
        """`prelude` are statements that ran before (earlier cells): they bind names, no rule sees them."""
        self.module = module
        self.top = Scope(module, None)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {module: self.top}
        self.owned: dict[ast.AST, Scope] = {module: self.top}  # node that makes a scope → that scope
        self.loads: dict[str, list[ast.Name]] = defaultdict(list)
        self.attributes: dict[str, list[ast.Attribute]] = defaultdict(list)
        self.written: dict[str, list[ast.Attribute]] = {}  # of these, the ones that are no loads
        self.star_imports: list[ast.ImportFrom] = []
        self.is_dynamic = False  # whether `exec` or `globals()` may bind names of the module
        self.wanted: list[ast.AST] = []  # nodes of the wanted types, in source order
        self.earlier: ast.Module | None = None
        if prelude:
            earlier = self.earlier = ast.Module(list(prelude), [])
            self.scopes[earlier] = self.top
            self.owned[earlier] = self.top
            self._walk(earlier, frozenset())
            del self.owned[earlier]
        self._before = len(self.parents)
        self._walk(module, wanted)

    def _walk(self, root: ast.Module, wanted: frozenset[type]) -> None:
        stack: list[ast.AST] = [root]
        parents, scopes, owned, found = self.parents, self.scopes, self.owned, self.wanted
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind in wanted:
                found.append(node)
            scope = scopes[node]
            handler = _HANDLERS.get(kind)
            if handler is not None:
                handler(self, node, scope)
            fields = _FIELDS[kind] if kind in _FIELDS else _fields(kind)
            if not fields:
                continue
            inner = owned.get(node) if kind in _INNER else None
            children: list[ast.AST] = []
            for name in fields:
                value = getattr(node, name, None)
                if value is None:
                    continue
                where = scope if inner is None or name not in _INNER[kind] else inner
                if isinstance(value, list):
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            scopes[item] = where
                            children.append(item)
                elif isinstance(value, ast.AST):
                    parents[value] = node
                    scopes[value] = where
                    children.append(value)
            children.reverse()
            stack += children

    def nodes(self) -> Iterator[ast.AST]:
        """All nodes of the unit but its module itself and operators, outer ones before those inside."""
        return islice(self.parents, self._before, None)

    def is_earlier(self, node: ast.AST) -> bool:
        """Whether `node` stands in the prelude: its positions are those of another text."""
        return self.earlier is not None and any(item is self.earlier for item in self.ancestors(node))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def scope_of(self, name: str, node: ast.AST) -> Scope | None:
        """The scope whose binding `name` means where `node` stands; None if this unit does not bind it."""
        start = self.scopes.get(node, self.top)
        scope: Scope | None = start
        while scope is not None:
            if scope is start or not scope.is_class:
                if scope.outside.get(name) == "global":
                    scope = scope.module()
                if name in scope.bindings:
                    return scope
            scope = scope.parent
        return None

    def bindings(self, name: str, node: ast.AST) -> list[Binding]:
        """All bindings of what `name` means where `node` stands."""
        scope = self.scope_of(name, node)
        return scope.bindings[name] if scope is not None else []

    def uses(self, name: str, scope: Scope) -> Iterator[ast.Name]:
        """The loads of `name` that mean the binding in `scope`."""
        return (use for use in self.loads.get(name, ()) if self.scope_of(name, use) is scope)

    def assigned(self, node: ast.AST) -> ast.expr | None:
        """The expression that is assigned to a target (a name or an attribute), if it can be told."""
        parent = self.parents[node]
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            return parent.value
        if isinstance(parent, (ast.Tuple, ast.List)):
            holder = self.parents.get(parent)
            value = holder.value if isinstance(holder, ast.Assign) else None
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(parent.elts):
                position = parent.elts.index(node)  # type: ignore[arg-type]
                if not any(isinstance(item, ast.Starred) for item in (*value.elts, *parent.elts)):
                    return value.elts[position]
        return None

    def every_scope(self) -> Iterable[Scope]:
        """All scopes of the unit, outermost first."""
        return self.owned.values()


# fields that never hold a node of interest (operators and contexts are shared between their parents)
_PLAIN = frozenset(
    {"id", "ctx", "attr", "kind", "type_comment", "op", "ops", "simple", "level", "conversion", "is_async"}
    | {"type_ignores", "arg", "module", "asname"}
)
_FIELDS: dict[type, tuple[str, ...]] = {ast.Constant: (), ast.Global: (), ast.Nonlocal: ()}


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a type of node that may hold nodes; worked out once."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(name for name in kind._fields if name not in _PLAIN)
    return _FIELDS[kind]


def walk(root: ast.AST) -> list[ast.AST]:
    """The nodes of a piece of syntax in the order of `ast.walk`, without operators and contexts (`Load`),
    in a third of the time."""
    found = [root]
    for node in found:
        kind = type(node)
        for name in _FIELDS[kind] if kind in _FIELDS else _fields(kind):
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


# fields of a scope-making node that are evaluated inside the new scope
_INNER: dict[type, frozenset[str]] = {
    ast.Module: frozenset({"body"}),
    ast.ClassDef: frozenset({"body"}),
    ast.FunctionDef: frozenset({"body"}),
    ast.AsyncFunctionDef: frozenset({"body"}),
    ast.Lambda: frozenset({"body"}),
    **{kind: frozenset({"elt", "key", "value", "generators"}) for kind in COMPREHENSIONS},
}


def _make_scope(tree: Tree, node: ast.AST, scope: Scope) -> Scope:
    inner = Scope(node, scope)
    tree.owned[node] = inner
    return inner


def _on_function(tree: Tree, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, (*FUNCTIONS, ast.Lambda))
    inner = _make_scope(tree, node, scope)
    if not isinstance(node, ast.Lambda):
        scope.bind(node.name, Binding(Bound.DEFINITION, node))
    for argument, default in parameters(node.args):
        inner.bind(argument.arg, Binding(Bound.PARAMETER, argument, default))


def _on_declaration(tree: Tree, node: ast.AST, scope: Scope) -> None:
    """`global` and `nonlocal` stand before every use of their names, so that the walk meets them first."""
    assert isinstance(node, (ast.Global, ast.Nonlocal))
    word = "global" if isinstance(node, ast.Global) else "nonlocal"
    scope.outside.update(dict.fromkeys(node.names, word))


def parameters(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """The parameters of a signature in order, each with its default."""
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = len(plain) - len(arguments.defaults)
    for index, argument in enumerate(plain):
        yield argument, arguments.defaults[index - missing] if index >= missing else None
    if arguments.vararg is not None:
        yield arguments.vararg, None
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    if arguments.kwarg is not None:
        yield arguments.kwarg, None


def _on_class(tree: Tree, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.ClassDef)
    scope.bind(node.name, Binding(Bound.DEFINITION, node))
    _make_scope(tree, node, scope)


def _on_comprehension(tree: Tree, node: ast.AST, scope: Scope) -> None:
    _make_scope(tree, node, scope)


def _on_import(tree: Tree, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Import)
    for item in node.names:
        local = item.asname or item.name.partition(".")[0]
        target = item.name if item.asname else local
        scope.bind(local, Binding(Bound.IMPORT, node, target=_original(target)))


def _on_import_from(tree: Tree, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.ImportFrom)
    package = "." * node.level + (node.module or "")
    for item in node.names:
        if item.name == "*":
            scope.stars.append(package)
            tree.star_imports.append(node)
            continue
        dot = "" if package.endswith(".") else "."
        target = _original(f"{package}{dot}{item.name}")
        scope.bind(item.asname or item.name, Binding(Bound.IMPORT, node, target=target))


def _original(target: str) -> str:
    """`portkit.runtime` for a copy of its helpers in the user's repository (`migrate --vendor`)."""
    _, found, tail = f".{target}".partition(f".{helpers.NAME}")
    return f"portkit.runtime{tail}" if found and (not tail or tail.startswith(".")) else target


def _on_name(tree: Tree, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Name)
    if isinstance(node.ctx, ast.Load):
        tree.loads[node.id].append(node)
        if node.id in ("exec", "globals", "vars"):
            tree.is_dynamic = tree.is_dynamic or _rebinds(tree, node)
        return
    parent = tree.parents[node]
    if isinstance(parent, ast.NamedExpr):  # binds in the function around a comprehension
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
    value = tree.assigned(node)
    how = Bound.OTHER if value is None else Bound.VALUE
    if isinstance(parent, ast.AnnAssign) and parent.value is None:
        return  # a declaration binds nothing
    scope.bind(node.id, Binding(how, node, value))


def _rebinds(tree: Tree, node: ast.Name) -> bool:
    """Whether `exec(...)`, `globals()[name] = ...` or `globals().update(...)` may bind a module's names."""
    call = tree.parents.get(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        return False
    if node.id == "exec":
        return len(call.args) < 2  # with a namespace of its own it binds elsewhere
    outer = tree.parents.get(call)
    if isinstance(outer, ast.Subscript):
        return not isinstance(outer.ctx, ast.Load)
    return isinstance(outer, ast.Attribute) and outer.attr in ("update", "setdefault", "__setitem__")


def _on_attribute(tree: Tree, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.Attribute)
    tree.attributes[node.attr].append(node)
    if not isinstance(node.ctx, ast.Load):
        tree.written.setdefault(node.attr, []).append(node)


def _on_handler(tree: Tree, node: ast.AST, scope: Scope) -> None:
    name = getattr(node, "name", None)
    if name:
        scope.bind(name, Binding(Bound.OTHER, node))


def _on_match_rest(tree: Tree, node: ast.AST, scope: Scope) -> None:
    assert isinstance(node, ast.MatchMapping)
    if node.rest:
        scope.bind(node.rest, Binding(Bound.OTHER, node))


_HANDLERS = {
    ast.FunctionDef: _on_function,
    ast.AsyncFunctionDef: _on_function,
    ast.Lambda: _on_function,
    ast.ClassDef: _on_class,
    **dict.fromkeys(COMPREHENSIONS, _on_comprehension),
    ast.Global: _on_declaration,
    ast.Nonlocal: _on_declaration,
    ast.Import: _on_import,
    ast.ImportFrom: _on_import_from,
    ast.Name: _on_name,
    ast.Attribute: _on_attribute,
    ast.ExceptHandler: _on_handler,
    ast.MatchAs: _on_handler,
    ast.MatchStar: _on_handler,
    ast.MatchMapping: _on_match_rest,
}
