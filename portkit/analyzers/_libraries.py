"""Packages that need CUDA, and what is known of their functions, from the tables in `tables/libraries/`."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from portkit import tables
from portkit.finding import Phase

_FOLDER = tables.FOLDER / "libraries"


@dataclass(frozen=True)
class Use:
    """A function, class or module of a package: what it is, and what takes its place."""

    name: str  # dotted, below the package; parts in between may be missing ("FusedAdam", "amp.initialize")
    what: str
    instead: str
    phase: Phase
    effort: int  # minutes


@dataclass(frozen=True)
class Library:
    """A package that needs CUDA."""

    package: str  # the name it is imported under first of all
    imports: tuple[str, ...]
    requirements: tuple[str, ...]
    what: str
    instead: str
    phase: Phase
    effort: int
    uses: dict[str, tuple[Use, ...]]  # by the last part of the name
    kernels: frozenset[str]  # decorators under which a function is compiled by the package
    only_listed: bool  # the package runs elsewhere too: only the names in the table need CUDA
    partly: bool  # the package, or a build of it, runs elsewhere too
    by: str  # the rule that looks at its imports; empty for the rule about libraries

    def of(self, qualified: str) -> str:
        """The import name of this library that a qualified name begins with."""
        return next((item for item in self.imports if f"{qualified}.".startswith(f"{item}.")), self.package)


@cache
def libraries() -> tuple[Library, ...]:
    """Every package of every table, in the order in which requirements are matched: `nvidia-*` comes last."""
    found = [
        _library(entry) for path in sorted(_FOLDER.glob("*.toml")) for entry in tables.read(path)["package"]
    ]
    return tuple(sorted(found, key=lambda item: "nvidia-*" in item.requirements))


def _library(entry: dict[str, Any]) -> Library:
    imports = tuple(entry["imports"])
    phase = Phase(entry.get("phase", Phase.OPERATOR.value))
    uses: dict[str, tuple[Use, ...]] = {}
    for row in entry.get("use", ()):
        for name in row["names"]:
            use = Use(name, row["what"], row["instead"], Phase(row.get("phase", phase.value)), row["effort"])
            last = name.rpartition(".")[2]
            uses[last] = (*uses.get(last, ()), use)
    return Library(
        package=imports[0] if imports else entry["requirements"][0],
        imports=imports,
        requirements=tuple(entry.get("requirements", ())),
        what=entry["what"],
        instead=entry["instead"],
        phase=phase,
        effort=entry["effort"],
        uses=uses,
        kernels=frozenset(entry.get("kernels", ())),
        only_listed=entry.get("only_listed", False),
        partly=entry.get("partly", entry.get("only_listed", False)),
        by=entry.get("by", ""),
    )


@cache
def by_import() -> dict[str, Library]:
    """Import name → library, for the packages whose imports the rule about libraries looks at."""
    return {name: library for library in libraries() if not library.by for name in library.imports}


def of_name(qualified: str) -> Library | None:
    """The library that a qualified name belongs to, whether or not the name itself is in its table."""
    known = by_import()
    parts = qualified.split(".")
    for length in range(min(3, len(parts)), 0, -1):
        found = known.get(".".join(parts[:length]))
        if found is not None:
            return found
    return None


def needs_cuda(qualified: str) -> Library | None:
    """The library that a name belongs to, unless that runs elsewhere too and does not list the name."""
    library = of_name(qualified)
    if library is None or (library.only_listed and use_of(library, qualified) is None):
        return None
    return library


def use_of(library: Library, qualified: str) -> Use | None:
    """What the table says of a name: the row that reaches furthest into it, then the most exact one."""
    parts = qualified.split(".")
    below = parts[library.of(qualified).count(".") + 1 :]
    for end in range(len(below), 0, -1):
        fitting = [use for use in library.uses.get(below[end - 1], ()) if _fits(use.name, below[:end])]
        if fitting:
            return max(fitting, key=lambda use: use.name.count("."))
    return None


def _fits(name: str, parts: list[str]) -> bool:
    """Whether the parts of a name stand in `parts` in this order; the last of both are the same."""
    rest = iter(parts)
    return all(part in rest for part in name.split("."))


def of_requirement(name: str) -> Library | None:
    """The library that a requirement asks for."""
    wanted = _normal(name)
    for pattern, library in _patterns():
        if pattern.fullmatch(wanted):
            return library
    return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Library], ...]:
    return tuple(
        (re.compile(fnmatch.translate(_normal(pattern))), library)
        for library in libraries()
        for pattern in library.requirements
    )


@cache
def words() -> frozenset[bytes]:
    """Lower-case words of which each import of a library has one."""
    return frozenset(name.lower().partition(".")[0].encode() for name in by_import())
