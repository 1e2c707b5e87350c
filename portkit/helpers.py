"""The device helpers of `portkit.runtime` as one small file: what some names need, and nothing more.

The text is that of the runtime's own source, read and cut, never imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import portkit

NAME = "_portkit"  # module and file of the helpers in the user's repository
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
MARK = "# Device helpers from portkit "
_PACKAGE = Path(__file__).parent
_RUNTIME = "portkit.runtime"


@dataclass
class _Module:
    """One file of the runtime: its definitions in order, and what its imports bind."""

    name: str
    source: str
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    ours: dict[str, tuple[str, str]] = field(default_factory=dict)  # local name → module, name
    others: dict[str, str] = field(default_factory=dict)  # local name → import statement

    def text(self, name: str) -> str:
        """The source of a definition, with its decorators."""
        node = self.definitions[name]
        first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
        return "\n".join(self.source.split("\n")[first - 1 : node.end_lineno])


@cache
def _module(name: str) -> _Module:
    file = _PACKAGE.joinpath(*name.split(".")[1:])
    path = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    module = _Module(name, path.read_text(encoding="utf-8"))
    for node in ast.parse(module.source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            module.definitions[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            module.definitions[node.targets[0].id] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            module.definitions[node.target.id] = node
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("portkit"):
            module.ours |= {item.asname or item.name: (node.module or "", item.name) for item in node.names}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module.others |= dict(_bindings(node))
    return module


def _bindings(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    for item in node.names:
        alias = f" as {item.asname}" if item.asname else ""
        bound = item.asname or item.name.partition(".")[0]
        if isinstance(node, ast.Import):
            yield bound, f"import {item.name}{alias}"
        else:
            yield bound, f"from {node.module} import {item.name}{alias}"


def spaces() -> frozenset[str]:
    """Names of the runtime that hold others: `pk.amp.autocast`."""
    ours = _module(_RUNTIME).ours
    return frozenset(local for local, (module, _) in ours.items() if module == _RUNTIME)


def home(name: str) -> tuple[str, str] | None:
    """Module and name of a helper (`device`, `amp.autocast`); None for what is no device helper."""
    space, dot, rest = name.rpartition(".")
    if dot:
        module = f"{_RUNTIME}.{space}"
        known = space in spaces() and rest in _module(module).definitions and not rest.startswith("_")
        return (module, rest) if known else None
    found = _module(_RUNTIME).ours.get(name)
    return found if found is not None and found[0] != _RUNTIME else None


@dataclass
class _Needed:
    """What goes into the file, by module, in the order in which modules need each other."""

    modules: dict[str, set[str]] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)

    def add(self, module: str, name: str) -> None:
        """Take a definition with everything that it uses."""
        names = self.modules.setdefault(module, set())
        if name in names:
            return
        names.add(name)
        source = _module(module)
        for used in sorted(_used(source.definitions[name])):
            if used in source.definitions:
                self.add(module, used)
            elif used in source.ours:
                self.add(*source.ours[used])
            elif used in source.others:
                self.imports.add(source.others[used])
        if module not in self.order:
            self.order.append(module)  # behind those that it needs


def _used(node: ast.stmt) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def text(names: Iterable[str]) -> str:
    """The file that gives these helpers; each must have a `home`."""
    wanted = sorted(set(names))
    needed = _Needed()
    for name in wanted:
        place = home(name)
        assert place is not None, name
        needed.add(*place)
    parts = [part for module in _sorted(needed) for part in _parts(module, needed.modules[module])]
    tail = "\n".join(_spaces(wanted))
    if tail:
        needed.imports.add("import types")
    imports = "\n".join(sorted(needed.imports, key=lambda line: (line.startswith("from "), line)))
    body = "\n\n\n".join(filter(None, [*parts, tail]))
    return f"{_header()}\nfrom __future__ import annotations\n\n{imports}\n\n\n{body}\n"


def _sorted(needed: _Needed) -> list[str]:
    """Modules so that each stands behind those whose names it uses when it is imported."""
    done: list[str] = []

    def visit(module: str) -> None:
        if module in done:
            return
        for other, _ in _module(module).ours.values():
            if other in needed.modules and other != module:
                visit(other)
        done.append(module)

    for module in needed.order:
        visit(module)
    return done


def _parts(module: str, names: set[str]) -> Iterator[str]:
    source = _module(module)
    for name in source.definitions:
        if name in names:
            yield source.text(name)


def _spaces(names: Sequence[str]) -> Iterator[str]:
    """`amp = types.SimpleNamespace(autocast=autocast)`; the name of a builtin is given free again."""
    by_space: dict[str, list[str]] = {}
    for name in names:
        space, dot, rest = name.rpartition(".")
        if dot:
            by_space.setdefault(space, []).append(rest)
    builtins = set(dir(__builtins__)) if not isinstance(__builtins__, dict) else set(__builtins__)
    for space, members in sorted(by_space.items()):
        yield f"{space} = types.SimpleNamespace({', '.join(f'{one}={one}' for one in members)})"
        hidden = [one for one in members if one in builtins]
        yield from (f"del {one}" for one in hidden)


def _header() -> str:
    return (
        f"{MARK}{portkit.__version__}, for torch 2.6 and newer.\n"
        "# Written by `portkit migrate --vendor`, which also renews it; do not change it by hand.\n"
        f"{LICENCE}"
        '"""The device in use, and what a program asks of it: any device of torch, or the CPU alone."""\n'
    )
