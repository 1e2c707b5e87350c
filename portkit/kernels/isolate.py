"""Kernels made from their source text: what a file's kernels need of it is read, and none of it is run."""

from __future__ import annotations

import ast
import contextlib
import importlib
import math
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from portkit.kernels import scopes
from portkit.kernels.evaluate import Evaluator, Unknown
from portkit.kernels.scopes import Defined, Scope

_OURS = ("triton", "portkit")  # packages whose place portkit's own runtime takes


class SourceModule:
    """A module of the same source tree: its names are read from its file."""

    is_source_module = True

    def __init__(self, file: scopes.File, world: World) -> None:
        self._file = file
        self._world = world
        self.__name__ = file.scope.file.stem

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or (name not in self._file.scope.bound and not self._file.scope.stars):
            raise AttributeError(name)
        return self._world.value(self._file.scope, name)


class Namespace(dict[str, Any]):
    """The globals of a kernel: each name is looked up in its file when the compiler asks for it."""

    def __init__(self, scope: Scope, world: World) -> None:
        super().__init__()
        self._scope, self._world = scope, world

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._world.binds(self._scope, name)

    def __getitem__(self, name: str) -> Any:
        return self._world.value(self._scope, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope.names())


class World:
    """Values of names, kernels among them; `given` overrides what the file says."""

    def __init__(self, file: scopes.File, given: Mapping[str, Any] | None = None) -> None:
        self.file = file
        self.given = dict(given or {})
        self._busy: set[tuple[int, str]] = set()
        self._made: dict[int, Any] = {}  # kernels, by the nodes that they were made from
        self._source: dict[int, Defined] = {}

    def evaluator(self, scope: Scope) -> Evaluator:
        """Evaluates expressions that stand in a scope."""
        return Evaluator(lambda name: self.value(scope, name))

    def binds(self, scope: Scope, name: str) -> bool:
        """Whether a name is bound in a scope, or in what it stands in."""
        return (
            self._overrides(scope, name)
            or scope.find(name) is not None
            or self._star(scope, name) is not None
        )

    def value(self, scope: Scope, name: str) -> Any:
        """The value of a name; raises Unknown, with the place that binds it."""
        if self._overrides(scope, name):
            return self.given[name]
        found = scope.find(name) or self._star(scope, name)
        if found is None:
            raise Unknown(f"name `{name}` is not defined")
        owner, binders = found
        key = (id(owner), name)
        if key in self._busy:
            raise Unknown(f"`{name}` is defined by itself", remedy=_GIVE.format(name=name))
        self._busy.add(key)
        try:
            return self._first(owner, name, binders)
        finally:
            self._busy.discard(key)

    def _overrides(self, scope: Scope, name: str) -> bool:
        return name in self.given and scope.file == self.file.scope.file

    def _star(self, scope: Scope, name: str) -> tuple[Scope, list[ast.AST]] | None:
        outer: Scope | None = scope
        while outer is not None:
            for star in outer.stars:
                file = scopes.imported(outer, star.module, star.level)
                if file is not None and name in file.scope.bound:
                    return file.scope, file.scope.bound[name]
                if name in _all_of_ours(star):
                    return outer, [ast.ImportFrom(star.module, [ast.alias(name)], 0)]
            outer = outer.parent
        return None

    def _first(self, scope: Scope, name: str, binders: list[ast.AST]) -> Any:
        """What the first binding gives whose value is known without running the file."""
        for node in binders[:-1]:
            with contextlib.suppress(Unknown):
                return self._bound(scope, name, node)
        return self._bound(scope, name, binders[-1])

    def _bound(self, scope: Scope, name: str, node: ast.AST) -> Any:
        if isinstance(node, ast.Import):
            return self._import(scope, name, node)
        if isinstance(node, ast.ImportFrom):
            return self._import_from(scope, name, node)
        if isinstance(node, ast.FunctionDef) and self.is_jit(node, scope):
            return self.kernel(Defined(node, scope, node.name))
        if isinstance(node, ast.ClassDef) and _is_record(node):
            return self._record(scope, node)
        value = _assigned(node, name)
        if value is not None:
            try:
                return self.evaluator(scope)(value)
            except Unknown as error:
                why = "" if isinstance(error.__context__, Unknown) or error.remedy else error.message
                raise _unknown(scope, name, node, why) from error
        raise _unknown(scope, name, node, _KINDS.get(type(node), ""))

    def _import(self, scope: Scope, name: str, node: ast.Import) -> Any:
        alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
        wanted = alias.name if alias.asname else name
        if alias.name.partition(".")[0] in _OURS:
            try:
                importlib.import_module(alias.name)
                return importlib.import_module(wanted)
            except ImportError as error:
                raise _unknown(scope, name, node, f"portkit has no {alias.name}") from error
        if wanted == "math":
            return math
        file = scopes.imported(scope, wanted)
        if file is None:
            raise _unknown(scope, name, node, f"module `{wanted}` is not imported")
        return SourceModule(file, self)

    def _import_from(self, scope: Scope, name: str, node: ast.ImportFrom) -> Any:
        alias = next(a for a in node.names if (a.asname or a.name) == name)
        module = node.module or ""
        if module.partition(".")[0] in _OURS and not node.level:
            try:
                return _member(module, alias.name)
            except (ImportError, AttributeError) as error:
                raise _unknown(scope, name, node, f"portkit has no {module}.{alias.name}") from error
        if module == "math":
            return getattr(math, alias.name)
        file = scopes.imported(scope, module, node.level)
        if file is not None and self.binds(file.scope, alias.name):
            return self.value(file.scope, alias.name)
        inner = scopes.imported(scope, f"{module}.{alias.name}".strip("."), node.level)
        if inner is not None:
            return SourceModule(inner, self)
        raise _unknown(scope, name, node, f"module `{'.' * node.level}{module}` is not imported")

    def _record(self, scope: Scope, node: ast.ClassDef) -> Any:
        """The named tuple that a class of fields alone is."""
        fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
        names = [item.target.id for item in fields if isinstance(item.target, ast.Name)]
        evaluate = self.evaluator(scope)
        return namedtuple(node.name, names, defaults=[evaluate(f.value) for f in fields if f.value])

    def is_jit(self, node: ast.FunctionDef, scope: Scope) -> bool:
        """Whether a function is compiled: one of its decorators is `triton.jit` or `portkit.jit`."""
        return any(self._is_jit(item, scope) for item in node.decorator_list)

    def _is_jit(self, node: ast.expr, scope: Scope) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        try:
            found = self.evaluator(scope)(called)
        except Unknown:
            return False
        return getattr(found, "__name__", "") == "jit" and str(found.__module__).startswith(
            "portkit.runtime."
        )

    def kernel(self, defined: Defined) -> Any:
        """The `JitFunction` of a function, made from its text."""
        if id(defined.node) not in self._made:
            made = self._made[id(defined.node)] = self._make(defined)
            self._source[id(made)] = defined
        return self._made[id(defined.node)]

    def defined(self, kernel: Any) -> Defined | None:
        """The function that a kernel was made from."""
        return self._source.get(id(kernel))

    def _make(self, defined: Defined) -> Any:
        from portkit.runtime.tile.jit import jit
        from portkit.runtime.tile.source_text import with_source

        node, scope = defined.node, defined.scope
        code = compile(ast.Module([_bare(node)], []), str(scope.file), "exec")
        space: dict[str, Any] = Namespace(scope, self)
        scratch: dict[str, Any] = {}
        exec(code, space, scratch)  # a `def` without decorators, defaults and annotations runs nothing
        function: FunctionType = scratch[node.name]
        self._defaults(function, node, scope)
        text = "\n".join(scope.lines[node.lineno - 1 : node.end_lineno]) + "\n"
        return jit(with_source(function, text))

    def _defaults(self, function: FunctionType, node: ast.FunctionDef, scope: Scope) -> None:
        evaluate = self.evaluator(scope)
        function.__defaults__ = tuple(_or_ellipsis(evaluate, item) for item in node.args.defaults)
        pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        function.__kwdefaults__ = {a.arg: _or_ellipsis(evaluate, d) for a, d in pairs if d is not None}


_GIVE = "Give its value: --arg {name}=VALUE."
_KINDS: dict[type, str] = {
    ast.FunctionDef: "it is an ordinary function",
    ast.ClassDef: "it is a class",
    ast.arg: "it is a parameter of the function around the kernel",
}


def _unknown(scope: Scope, name: str, node: ast.AST, why: str) -> Unknown:
    where = f"{scope.file.name}:{getattr(node, 'lineno', '?')}"
    told = f"{where}: {why}" if why else where
    return Unknown(
        f"the value of `{name}` is only known when the file runs ({told})", remedy=_GIVE.format(name=name)
    )


def _all_of_ours(star: scopes.Star) -> Sequence[str]:
    """What a star import takes of a module of ours."""
    if star.level or star.module.partition(".")[0] not in _OURS:
        return ()
    try:
        return getattr(importlib.import_module(star.module), "__all__", ())
    except ImportError:
        return ()


def _member(module: str, name: str) -> Any:
    loaded = importlib.import_module(module)
    return getattr(loaded, name) if hasattr(loaded, name) else importlib.import_module(f"{module}.{name}")


def _assigned(node: ast.AST, name: str) -> ast.expr | None:
    """The expression that a statement gives to a name as a whole."""
    if isinstance(node, ast.AnnAssign):
        return node.value
    if not isinstance(node, ast.Assign):
        return None
    return node.value if any(isinstance(t, ast.Name) and t.id == name for t in node.targets) else None


def _is_record(node: ast.ClassDef) -> bool:
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    fields = all(isinstance(item, ast.AnnAssign) or _is_text_line(item) for item in node.body)
    return bases == ["NamedTuple"] and fields and not node.decorator_list


def _is_text_line(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _is_text(node.value)


def _or_ellipsis(evaluate: Evaluator, node: ast.expr) -> Any:
    try:
        return evaluate(node)
    except Unknown:
        return ...  # stands for a default that is not known


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    """The function without all that would be evaluated where it is defined; annotations become text."""

    def plain(argument: ast.arg) -> ast.arg:
        note = argument.annotation
        text = note if note is None or _is_text(note) else ast.Constant(ast.unparse(note))
        return ast.arg(argument.arg, text)

    given = node.args
    arguments = ast.arguments(
        posonlyargs=[plain(a) for a in given.posonlyargs],
        args=[plain(a) for a in given.args],
        vararg=given.vararg and plain(given.vararg),
        kwonlyargs=[plain(a) for a in given.kwonlyargs],
        kw_defaults=[None] * len(given.kwonlyargs),
        kwarg=given.kwarg and plain(given.kwarg),
        defaults=[],
    )
    made = ast.FunctionDef(node.name, arguments, [ast.Pass()], [], None)
    if "type_params" in ast.FunctionDef._fields:
        vars(made)["type_params"] = []
    return ast.fix_missing_locations(ast.copy_location(made, node))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def path_and_name(text: str) -> tuple[Path, str]:
    """`FILE[:NAME]` taken apart; a colon of a path stays."""
    path, colon, name = text.rpartition(":")
    if colon and path and all(part.isidentifier() for part in name.split(".")) and not Path(text).exists():
        return Path(path), name
    return Path(text), ""
