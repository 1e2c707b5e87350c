"""Packages that need CUDA, by the names they are imported and required under."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from functools import lru_cache

from portkit import tables

_USUAL = 30  # minutes to replace one use of a library, where the table does not say


@dataclass(frozen=True)
class Library:
    """A package that needs CUDA."""

    package: str
    what: str
    instead: str
    requirements: tuple[str, ...]
    minutes: int  # that it takes to replace one use


@lru_cache(maxsize=1)
def libraries() -> dict[str, Library]:
    """Every library, by import name."""
    found = {}
    for section, entry in tables.load("cuda_libraries").items():
        package = entry.get("package", section)
        found[package] = Library(
            package,
            entry["what"],
            entry["instead"],
            tuple(entry.get("requirements", ())),
            entry.get("minutes", _USUAL),
        )
    return found


def of_name(qualified: str) -> Library | None:
    """The library that a qualified name belongs to."""
    known = libraries()
    parts = qualified.split(".")
    return next((known[n] for i in (1, 2) if (n := ".".join(parts[:i])) in known), None)


def of_requirement(name: str) -> Library | None:
    """The library that a requirement asks for."""
    wanted = name.lower().replace("_", "-")
    for library in libraries().values():
        for pattern in library.requirements:
            if fnmatch.fnmatchcase(wanted, pattern.lower().replace("_", "-")):
                return library
    return None
