"""Every name and signature of torch, of other libraries and of our runtime that the tables hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from portkit import helpers, tables

_NAME = re.compile(r"(?:torch|pk)(?:\.[A-Za-z_]\w*)+")
_IN_TEXT = re.compile(r"(?<![\w./-])(?:torch|pk)(?:\.[A-Za-z_]\w*)+(?![\w/*-])")
_LAZY = frozenset({"jit", "cdiv", "next_power_of_2", "tile", "triton", "ops", "nn", "random"})


class Role(str, Enum):
    """What a name is there for."""

    FOUND = "found"  # in the user's code: it may be one that torch no longer has
    USED = "used"  # in migrated code, or in what a person is told to write: it must exist


@dataclass(frozen=True)
class Fact:
    """One name, as one table has it."""

    name: str
    role: Role
    place: str  # table, from the folder of the package
    signature: str | None = None


@cache
def all_facts() -> tuple[Fact, ...]:
    """Every fact of every table, by name; found by walking the folders."""
    found = {fact for path in _files() for fact in _of_file(path)}
    found |= {Fact(name, Role.FOUND, "operators.txt") for name in _operators()}
    return tuple(
        sorted(found, key=lambda fact: (fact.name, fact.role.value, fact.place, fact.signature or ""))
    )


def _files() -> Iterator[Path]:
    yield from sorted(tables.FOLDER.rglob("*.toml"))
    for folder in ("ops", "nn"):
        yield from sorted((tables.RUNTIME / folder).glob("*.toml"))


def _operators() -> list[str]:
    text = (tables.FOLDER.parent / "operators.txt").read_text(encoding="ascii")
    return [line for line in text.split("\n") if line]


def _of_file(path: Path) -> Iterator[Fact]:
    place = path.relative_to(tables.FOLDER.parent).as_posix()
    table = tables.read(path)
    if path.parent.name == "libraries":  # its lists hold names of the libraries
        yield from _of_libraries(table, place)
        table = {"package": [_texts(package) for package in table.get("package", ())]}
    for entry in table.get("replaces", ()):
        yield Fact(entry["name"], Role.FOUND, place, entry.get("signature"))
    yield from _of_value({key: value for key, value in table.items() if key != "replaces"}, place)


def _of_value(value: Any, place: str) -> Iterator[Fact]:
    """Names anywhere in a table: a key or an item of a list is looked for, a value is written."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _NAME.fullmatch(key):
                yield Fact(key, Role.FOUND, place)
            yield from _of_value(item, place)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str) and _NAME.fullmatch(item):
                yield Fact(item, Role.FOUND, place)
            elif not isinstance(item, str):
                yield from _of_value(item, place)
    elif isinstance(value, str):
        for match in _IN_TEXT.finditer(value):
            yield Fact(match[0], Role.USED, place)


def _texts(value: Any) -> Any:
    """A table without its lists of names."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items() if not _is_names(item)}
    return [_texts(item) for item in value] if isinstance(value, list) else value


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _of_libraries(table: dict[str, Any], place: str) -> Iterator[Fact]:
    for package in table.get("package", ()):
        for module in package.get("imports", ()):
            yield Fact(module, Role.FOUND, place)


@cache
def ours() -> frozenset[str]:
    """Names of the operators and modules of the runtime (`ops.softmax`, `nn.LayerNorm`)."""
    found = set()
    for folder in ("ops", "nn"):
        for path in (tables.RUNTIME / folder).glob("*.toml"):
            table = tables.read(path)
            found.add(f"{folder}.{table['name']}")
            found |= {f"{folder}.{entry['to']}" for entry in table.get("replaces", ()) if "to" in entry}
    return frozenset(found)


def is_ours(name: str) -> bool:
    """Whether the runtime has what `pk.` and this name say."""
    return name in _LAZY or name in helpers.spaces() or name in ours() or helpers.home(name) is not None
