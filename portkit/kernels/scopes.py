"""What each name of a file is bound to, read from its syntax tree; and which file an import names."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from portkit.errors import UsageError, caret

Function = ast.FunctionDef | ast.AsyncFunctionDef
_LEVELS = 12  # folders above a file in which its packages are looked for


@dataclass(frozen=True)
class Star:
    """`from module import *`."""

    module: str
    level: int


@dataclass
class Scope:
    """The names bound in a file, or in a function of it, each with what binds it, in order."""

    file: Path
    lines: Sequence[str]
    parent: Scope | None = None
    bound: dict[str, list[ast.AST]] = field(default_factory=dict)
    stars: list[Star] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)

    def find(self, name: str) -> tuple[Scope, list[ast.AST]] | None:
        """The innermost scope that binds a name, and what binds it there."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bound:
                return scope, scope.bound[name]
            scope = scope.parent
        return None

    def names(self) -> list[str]:
        """Every name that is visible, but for those of star imports."""
        return [*self.bound, *(self.parent.names() if self.parent else ())]

    def place(self, node: ast.AST) -> str:
        """`file:line` of a node."""
        return f"{self.file}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Defined:
    """A function of a file, the scope that it stands in, and its dotted name."""

    node: ast.FunctionDef
    scope: Scope
    name: str


@dataclass
class File:
    """A parsed file: its module scope, and all its functions in order."""

    scope: Scope
    tree: ast.Module
    functions: list[Defined]


def read(path: Path) -> File:
    """Parse a file; raises UsageError where there is none, or where it is no Python."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}.") from error
    if path.suffix == ".ipynb":
        raise UsageError(f"{path} is a notebook.", remedy="Put the kernels in a Python file.")
    try:
        tree = ast.parse(data, str(path))
    except SyntaxError as error:
        shown = caret(error.text.rstrip("\n"), error.offset or 1) if error.text else ""
        raise UsageError(
            f"This is no Python: {error.msg}.", place=f"{path}:{error.lineno or 1}", source=shown
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} can't be parsed: {error}.") from error
    scope = Scope(path, _lines(data))
    found = File(scope, tree, [])
    try:
        _collect(tree.body, scope, found, "")
    except RecursionError as error:
        raise UsageError(f"{path} is nested too deeply.") from error
    return found


def _lines(data: bytes) -> list[str]:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    return text.split("\n")


def _collect(body: Sequence[ast.stmt], scope: Scope, file: File, prefix: str) -> None:
    for item in body:
        for name, node in _bindings(item):
            scope.bound.setdefault(name, []).append(node)
        if isinstance(item, ast.ImportFrom) and any(alias.name == "*" for alias in item.names):
            scope.stars.append(Star(item.module or "", item.level))
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _function(item, scope, file, prefix)
        elif isinstance(item, ast.ClassDef):
            inner = Scope(scope.file, scope.lines, scope)
            _collect(item.body, inner, file, f"{prefix}{item.name}.")
        else:
            for part in _parts(item):
                _collect(part, scope, file, prefix)


def _function(item: Function, scope: Scope, file: File, prefix: str) -> None:
    if isinstance(item, ast.FunctionDef):
        file.functions.append(Defined(item, scope, f"{prefix}{item.name}"))
    inner = Scope(scope.file, scope.lines, scope)
    arguments = item.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        inner.bound[argument.arg] = [argument]
    _collect(item.body, inner, file, f"{prefix}{item.name}.")


def _parts(item: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks inside a statement that run in the same scope."""
    for name in ("body", "orelse", "finalbody"):
        part = getattr(item, name, None)
        if isinstance(part, list):
            yield part
    for handler in getattr(item, "handlers", ()):
        yield handler.body
    for case in getattr(item, "cases", ()):
        yield case.body


def _bindings(item: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield item.name, item
    elif isinstance(item, (ast.Import, ast.ImportFrom)):
        for alias in item.names:
            if alias.name != "*":
                yield alias.asname or alias.name.partition(".")[0], item
    elif isinstance(item, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        targets = item.targets if isinstance(item, ast.Assign) else [item.target]
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    yield part.id, item


@lru_cache(maxsize=256)
def _parsed(path: Path) -> File | None:
    try:
        return read(path)
    except UsageError:
        return None


def imported(scope: Scope, module: str, level: int = 0) -> File | None:
    """The file that an import in a scope names, where it is one of the same source tree."""
    parts = module.split(".") if module else []
    if level:
        folder = scope.file.resolve().parent
        for _ in range(level - 1):
            folder = folder.parent
        return _module_in(folder, parts)
    for folder in [*scope.file.resolve().parents][:_LEVELS]:
        for root in (folder, folder / "src"):
            found = _module_in(root, parts)
            if found is not None:
                return found
    return None


def _module_in(folder: Path, parts: Sequence[str]) -> File | None:
    path = folder.joinpath(*parts)
    for candidate in (path / "__init__.py", path.with_suffix(".py") if parts else None):
        if candidate is not None and candidate.is_file():
            return _parsed(candidate)
    return None
