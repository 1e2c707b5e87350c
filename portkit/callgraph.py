"""What the functions of one file use of the project's own code: plain data, one record a file.

Functions and classes go by their name in the file (`Trainer.step`); code that runs when the file is imported
is the function "", what stands below `if __name__ == "__main__":` is "__main__".  What a function uses is
written as a key, for `portkit.reach` to look up once all files are known:

    =Trainer.step       a function or class of the same file
    .layers.Linear      a name that an import brings (relative or absolute)
    @.layers            the import of a module, which runs it
    self:Trainer:step   a method that a class or its bases define; `super:` leaves the class itself out
    KEY()               calling an instance of the class KEY;  KEY().m  calling its method m
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from portkit.names import Names
from portkit.scopes import FUNCTIONS, Bound, Scope, Tree

MAIN = "__main__"
_LIBRARIES = frozenset(
    (
        *sys.stdlib_module_names,
        "torch",
        "numpy",
        "torchvision",
        "triton",
        "pandas",
        "scipy",
        "matplotlib",
        "einops",
    )
)
_ASKED = frozenset({"isinstance", "issubclass", "super", "hasattr", "getattr", "print", "len", "type"})
_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "OSError"})


@dataclass
class Code:
    """The functions and classes of one file, and what they use."""

    functions: dict[str, int] = field(default_factory=dict)  # name → line
    classes: dict[str, list[str]] = field(default_factory=dict)  # name → keys of its bases
    imports: dict[str, str] = field(default_factory=dict)  # names of the module that are imported → target
    stars: list[str] = field(default_factory=list)  # modules whose every name is imported
    uses: dict[str, set[str]] = field(default_factory=dict)  # function → keys
    main: list[tuple[int, int]] = field(default_factory=list)  # lines that only run in a script

    @property
    def methods(self) -> Iterator[str]:
        """The last names of all methods."""
        for name in self.functions:
            owner, _, last = name.rpartition(".")
            if owner in self.classes:
                yield last

    def function_at(self, scope: str, line: int) -> str:
        """The function that a finding in `scope` (of functions and classes) belongs to."""
        while scope and scope not in self.functions:
            scope = scope.rpartition(".")[0]
        if not scope and any(start <= line <= end for start, end in self.main):
            return MAIN
        return scope


def collect(tree: Tree, names: Names, code: Code, *, cell: bool) -> None:
    """Add what one unit holds to the record of its file; `cell`: names may be those of earlier cells."""
    _Collector(tree, names, code, cell).run()


class _Collector:
    def __init__(self, tree: Tree, names: Names, code: Code, cell: bool) -> None:
        self.tree, self.names, self.code, self.cell = tree, names, code, cell
        self.qualified: dict[ast.AST, str] = {tree.module: ""}
        self.callables: set[str] = set()  # names that may mean functions or classes of the project

    def run(self) -> None:
        self._definitions()
        self._callables()
        self._main()
        self._imports()
        self._references()
        for node in self.tree.wanted:
            if isinstance(node, ast.Call):
                self._call(node)
        self._self_uses()

    def _use(self, node: ast.AST, key: str) -> None:
        self.code.uses.setdefault(self._caller(node), set()).add(key)

    # --- what there is -----------------------------------------------------------------------------

    def _definitions(self) -> None:
        for node in self.tree.owned:  # outermost first
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                continue
            outer = self._holder(node)
            name = f"{outer}.{node.name}" if outer else node.name
            self.qualified[node] = name
            if isinstance(node, ast.ClassDef):
                keys = [self._meant(base) for base in node.bases]
                self.code.classes[name] = [key for key in keys if key is not None]
            else:
                self.code.functions[name] = node.lineno

    def _callables(self) -> None:
        for scope in self.tree.every_scope():
            for name, bindings in scope.bindings.items():
                how = bindings[0].how
                if how is Bound.DEFINITION or (how is Bound.IMPORT and _is_own(bindings[0].target)):
                    self.callables.add(name)

    def _holder(self, node: ast.AST) -> str:
        scope: Scope | None = self.tree.scopes[node]
        while scope is not None and scope.node not in self.qualified:
            scope = scope.parent
        return self.qualified[scope.node] if scope is not None else ""

    def _caller(self, node: ast.AST) -> str:
        """The function that runs `node`; a class body runs with what is around it.

        A decorator counts as used by the function that it wraps: calling that runs what the decorator made.
        """
        wrapped = self._wrapped(node)
        if wrapped is not None:
            return self.qualified[wrapped]
        scope: Scope | None = self.tree.scopes.get(node)
        while scope is not None:
            if isinstance(scope.node, FUNCTIONS):
                return self.qualified[scope.node]
            scope = scope.parent
        line = getattr(node, "lineno", 0)
        return MAIN if any(start <= line <= end for start, end in self.code.main) else ""

    def _wrapped(self, node: ast.AST) -> ast.AST | None:
        child, parent = node, self.tree.parents.get(node)
        while isinstance(parent, (ast.Call, ast.Attribute)):
            child, parent = parent, self.tree.parents.get(parent)
        decorates = isinstance(parent, FUNCTIONS) and child in parent.decorator_list
        return parent if decorates else None

    def _main(self) -> None:
        for statement in self.tree.module.body:
            if isinstance(statement, ast.If) and isinstance(statement.test, ast.Compare):
                left = statement.test.left
                if isinstance(left, ast.Name) and left.id == "__name__" and not self.cell:
                    first, last = statement.body[0].lineno, statement.body[-1].end_lineno
                    self.code.main.append((first, last or first))

    def _imports(self) -> None:
        for name, bindings in self.tree.top.bindings.items():
            targets = [item.target for item in bindings if item.how is Bound.IMPORT]
            if targets and _is_own(targets[0]):
                self.code.imports[name] = targets[0]
        self.code.stars += [star for star in self.tree.top.stars if _is_own(star)]
        for node in self.tree.wanted:
            if not isinstance(node, (ast.Import, ast.ImportFrom)) or may_fail(self.tree, node):
                continue
            for module in _modules(node):
                if _is_own(module):
                    self._use(node, f"@{module}")

    # --- what is used ------------------------------------------------------------------------------

    def _meant(self, node: ast.AST) -> str | None:
        """The key of a function or class of the project that an expression means."""
        if isinstance(node, ast.Name):
            definition = self.names.definition(node)
            if definition is not None:
                name = self.qualified.get(definition)
                return f"={name}" if name is not None else None
            elsewhere = self.cell or self.code.stars  # an earlier cell, or a module that is star-imported
            if elsewhere and not self.tree.bindings(node.id, node) and not hasattr(builtins, node.id):
                return f"={node.id}"
        name = self.names.resolve(node)
        if name is not None:
            return name if _is_own(name) else None
        if isinstance(node, ast.Attribute):
            inner = self._meant(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else None
            return f"{inner}.{node.attr}" if inner is not None else None
        return None

    def _references(self) -> None:
        """Functions that are named: called, passed on, returned.  Classes count where they are called."""
        for node, name in self.qualified.items():
            if isinstance(node, FUNCTIONS) and not isinstance(self.tree.parents.get(node), ast.ClassDef):
                for use in self.tree.loads.get(node.name, ()):
                    if self.names.definition(use) is node and (self._runs(use) or self._caller(use)):
                        self._use(use, f"={name}")

    def _runs(self, use: ast.AST) -> bool:
        """Whether a function is called where it is named; a table of functions runs none of them."""
        parent = self.tree.parents.get(use)
        if isinstance(parent, ast.Call):
            return parent.func is use
        return use in getattr(parent, "decorator_list", ())

    def _call(self, node: ast.Call) -> None:
        function = node.func
        name = self.names.resolve(function)
        key = self._meant(function) if name is None or _is_own(name) or self.cell or self.code.stars else None
        if key is not None:
            self._use(node, key)
        elif name is not None:
            pass  # of a library
        elif (instance := self._instance(function)) is not None:
            self._use(node, f"{instance}()")
        elif isinstance(function, ast.Attribute):
            self._method(node, function)
        if not (isinstance(function, ast.Name) and function.id in _ASKED):
            self._arguments(node)

    def _arguments(self, node: ast.Call) -> None:
        """What is passed on; at import time that does not run it."""
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(argument, (ast.Name, ast.Attribute)) and _root(argument) in self.callables:
                key = self._meant(argument)
                if key is not None and self._caller(node):
                    self._use(argument, key)

    def _method(self, node: ast.Call, function: ast.Attribute) -> None:
        value = function.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
            owner = self._class_around(node)
            if owner is not None:
                self._use(node, f"super:{owner}:{function.attr}")
            return
        instance = self._instance(value)
        if instance is not None:
            self._use(node, f"{instance}().{function.attr}")

    def _instance(self, node: ast.AST) -> str | None:
        """The key of the class that `node` is an instance of, by how the unit makes it."""
        if isinstance(node, ast.Call):
            return self._made(node)
        if isinstance(node, ast.Name):
            made = [
                self._made(item.value) for item in self.tree.bindings(node.id, node) if item.value is not None
            ]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            made = [self._made(value) for value in self._stored(node)]
        else:
            return None
        keys = {key for key in made if key is not None}
        return keys.pop() if len(keys) == 1 else None

    def _made(self, value: ast.AST) -> str | None:
        if not isinstance(value, ast.Call):
            return None
        key = self._meant(value.func)
        last = (key or "").lstrip("=").rpartition(".")[2].lstrip("_")
        return key if last[:1].isupper() else None

    def _stored(self, node: ast.Attribute) -> Iterator[ast.AST]:
        """What the class around `node` assigns to the attribute."""
        owner = self._class_around(node)
        for use in self.tree.attributes.get(node.attr, ()):
            parent = self.tree.parents.get(use)
            if not isinstance(use.ctx, ast.Store) or self._class_around(use) != owner:
                continue
            if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is not None:
                yield parent.value

    def _class_around(self, node: ast.AST) -> str | None:
        scope: Scope | None = self.tree.scopes.get(node)
        while scope is not None and not scope.is_class:
            scope = scope.parent
        return self.qualified.get(scope.node) if scope is not None else None

    def _self_uses(self) -> None:
        """`self.method` and `cls.method`, called or passed on; properties are read."""
        methods = set(self.code.methods)
        for attr, uses in self.tree.attributes.items():
            for use in uses:
                holder = use.value
                if attr not in methods and not self._runs(use):
                    continue  # plain data, or a property that another file defines
                if not (isinstance(holder, ast.Name) and holder.id in ("self", "cls")):
                    continue
                if isinstance(use.ctx, ast.Load) and (owner := self._class_around(use)) is not None:
                    self._use(use, f"self:{owner}:{attr}")


def may_fail(tree: Tree, node: ast.AST) -> bool:
    """Whether the program goes on without an import, or never runs it."""
    inner = node
    for outer in tree.ancestors(node):
        if isinstance(outer, ast.Try) and inner in outer.body and any(map(_catches, outer.handlers)):
            return True
        if isinstance(outer, ast.If) and _names_type_checking(outer.test):
            return True
        inner = outer
    return False


def _names_type_checking(test: ast.expr) -> bool:
    return (test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")) == "TYPE_CHECKING"


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_own(name: str) -> bool:
    """Whether a name may be the project's own: that of no library that everybody uses."""
    return name.partition(".")[0] not in _LIBRARIES


def _modules(node: ast.Import | ast.ImportFrom) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [item.name for item in node.names]
    package = "." * node.level + (node.module or "")
    dot = "" if package.endswith(".") else "."
    return [package, *(f"{package}{dot}{item.name}" for item in node.names if item.name != "*")]


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in kinds]
    return handler.type is None or not _ERRORS.isdisjoint(names)
