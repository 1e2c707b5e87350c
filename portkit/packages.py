"""The table of packages: what a project requires and imports, which need CUDA, what to use instead."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from posixpath import dirname
from typing import Any

from portkit import requirements, tables
from portkit.analyzers import _libraries
from portkit.imports import Import, Imports
from portkit.requirements import Requirement

_TORCH = ("torch", "torchvision", "torchaudio", "pytorch")
_NO_PACKAGE = frozenset({"python", "pip", "conda", "micromamba", "uv"})
ONLY, BUILD, PARTLY, PORTABLE, UNKNOWN = "only", "build", "partly", "no", "unknown"


@dataclass(frozen=True)
class Declared:
    """One place that requires a package."""

    path: str
    line: int
    cell: int | None
    spec: str


@dataclass(frozen=True)
class Used:
    """One file that imports a package."""

    path: str
    line: int
    count: int
    guarded: int
    sure: bool


@dataclass
class Package:
    """A package of somebody else that the project requires or imports."""

    name: str  # as the registry has it, or as it is imported where that is not known
    cuda: str = UNKNOWN  # ONLY, BUILD (pinned to a build for CUDA), PARTLY, PORTABLE or UNKNOWN
    what: str = ""
    instead: str = ""
    imports: set[str] = field(default_factory=set)  # names under which it is imported
    declared: list[Declared] = field(default_factory=list)
    used: list[Used] = field(default_factory=list)

    @property
    def versions(self) -> list[str]:
        """The versions that it is pinned to, in order."""
        return sorted({version for item in self.declared if (version := requirements.pinned(item.spec))})

    @property
    def count(self) -> int:
        return sum(item.count for item in self.used)

    @property
    def guarded(self) -> int:
        return sum(item.guarded for item in self.used)

    @property
    def blocks(self) -> bool:
        """Whether it keeps the project from being installed or imported without CUDA."""
        unguarded = any(item.guarded < item.count for item in self.used)
        return self.cuda in (ONLY, BUILD) and (bool(self.declared) or unguarded)


def table(
    required: Mapping[str, Sequence[Requirement]], imported: Mapping[str, Imports], python: Sequence[str]
) -> list[Package]:
    """All packages, those that need CUDA first.  The mappings are by file; `python` are all Python files."""
    rows: dict[str, Package] = {}
    for path, items in sorted(required.items()):
        for asked in items:
            if asked.name not in _NO_PACKAGE:
                row = rows.setdefault(_identity(asked.name), Package(asked.name))
                row.declared.append(Declared(path, asked.line, asked.cell, asked.spec))
    own = Own(python)
    for path, found in sorted(imported.items()):
        for name, item in own.outside(path, found):
            key = _imported(name, rows)
            if not item.sure and key not in rows and not _known(key):
                continue  # a line that looks like an import, of something that nothing else mentions
            row = rows.setdefault(key, Package(_usual(name, key)))
            row.imports.add(name)
            row.used.append(Used(path, item.line, item.count, item.guarded, item.sure))
    for key, row in rows.items():
        _judge(key, row)
    order = (ONLY, BUILD, PARTLY, UNKNOWN, PORTABLE)
    return sorted(rows.values(), key=lambda row: (order.index(row.cuda), -row.count, row.name))


def _identity(name: str) -> str:
    """The key of the row of a required package: one for all the names that a library has."""
    if name in _facts()["cuda"]:
        return name
    library = _libraries.of_requirement(name)
    if library is None or library.package == "nvidia":  # whose packages have nothing in common
        return name
    return requirements.normal(library.package)


def _imported(name: str, rows: Mapping[str, Package]) -> str:
    """The key of the row of an imported package."""
    library = _libraries.of_name(name)
    if library is not None:
        return requirements.normal(library.package)
    names: list[str] = _facts()["names"].get(name, [requirements.normal(name)])
    for pattern in names:
        for key in fnmatch.filter(rows, pattern) if "*" in pattern else [pattern] if pattern in rows else []:
            return key
    return names[0]


def _usual(name: str, key: str) -> str:
    """What a package that is imported only is called."""
    library = _libraries.of_name(name)
    if library is None:
        return name if name.startswith("_") else key
    if "." in library.package:
        return library.package
    plain = [item for item in library.requirements if "*" not in item]
    return plain[0] if plain else library.package


def _known(key: str) -> bool:
    facts = _facts()
    return key in facts["cuda"] or key in facts["partly"] or key in _portable() or _library(key) is not None


def _library(key: str) -> _libraries.Library | None:
    for library in _libraries.libraries():
        if requirements.normal(library.package) == key:
            return library
    return _libraries.of_requirement(key)


def _judge(key: str, row: Package) -> None:
    """Fill in what is known of a package and CUDA."""
    facts = _facts()
    told = key in facts["cuda"] or key in facts["partly"]
    library = _library(key) if not told else None
    if library is not None:
        row.cuda = PARTLY if library.partly else ONLY
        row.what, row.instead = library.what, library.instead
    elif key in facts["cuda"]:
        row.cuda, row.what, row.instead = ONLY, "belongs to CUDA, or asks for it", facts["cuda"][key]
    elif key in _TORCH and any("+cu" in item.spec for item in row.declared):
        row.cuda, row.what = BUILD, "is pinned to a build for one version of CUDA"
        row.instead = "Take it from the default index, or from the index of the device in use."
    elif key in facts["partly"]:
        row.cuda, row.instead = PARTLY, facts["partly"][key]
    elif key in _portable():
        row.cuda = PORTABLE


@cache
def _facts() -> dict[str, Any]:
    return tables.load("packages")


@cache
def _portable() -> frozenset[str]:
    return frozenset(_facts()["portable"]["names"])


class Own:
    """Which imports are of the project's own modules."""

    def __init__(self, python: Sequence[str]) -> None:
        self.modules: set[str] = set()
        for path in python:
            stem = path.rpartition(".")[0]
            self.modules.add(stem)
            while stem := dirname(stem):
                self.modules.add(stem)

    def outside(self, path: str, found: Imports) -> Iterator[tuple[str, Import]]:
        """The packages of others that a file imports, each with its best name."""
        merged: dict[str, Import] = {}
        for parts, item in found.items():
            library = _libraries.of_name(".".join(parts))
            name = library.package if library is not None else parts[0]
            if parts[0] in sys.stdlib_module_names or self.has(path, parts[0]):
                continue
            known = merged.setdefault(name, Import(item.line, sure=item.sure))
            known.line = min(known.line, item.line)
            known.count += item.count
            known.guarded += item.guarded
        yield from merged.items()

    def holds(self, module: str) -> bool:
        """Whether the project has a module of this dotted name in any folder, as programs set their paths."""
        path = module.replace(".", "/")
        return path in self.modules or any(known.endswith(f"/{path}") for known in self.modules)

    def has(self, path: str, name: str) -> bool:
        """Whether a top-level name is a module of the project, as a file there sees it: the modules of a
        package are seen from outside of it, by their full names."""
        folder = dirname(path)
        while True:
            inner = f"{folder}/" if folder else ""
            if f"{inner}{name}" in self.modules and f"{inner}__init__" not in self.modules:
                return True
            if not folder:
                break
            folder = dirname(folder)
        return any(f"{root}/{name}" in self.modules for root in ("src", "lib", "python"))
