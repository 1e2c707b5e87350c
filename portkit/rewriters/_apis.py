"""Tables of a project's own APIs: the TOML files that `apis` in the settings names, checked key by key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portkit import tomlfile
from portkit.errors import ConfigError

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_GROUPS = ("to", "review", "manual", "portable")
_LIBRARY = ("what", "instead", "requirements")
_WHAT = "table of APIs"


@dataclass(frozen=True)
class Library:
    """A package of the project's own that needs CUDA."""

    package: str  # import name
    what: str
    instead: str
    requirements: tuple[str, ...]


@dataclass(frozen=True)
class Apis:
    """Everything that the tables of a project say."""

    names: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {group: {} for group in _GROUPS})
    libraries: Mapping[str, Library] = field(default_factory=dict)

    def triggers(self) -> tuple[bytes, ...]:
        """Lower-case words of which a file must hold one to be concerned."""
        names = [name.rpartition(".")[2] for group in self.names.values() for name in group]
        roots = [name.partition(".")[0] for name in self.libraries]
        asked = [name for library in self.libraries.values() for name in library.requirements]
        return tuple(sorted({word.lower().encode() for word in (*names, *roots, *asked)}))

    def library(self, qualified: str) -> Library | None:
        """The library that a qualified name belongs to."""
        parts = qualified.split(".")
        heads = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((self.libraries[head] for head in heads if head in self.libraries), None)


def read(files: tuple[Path, ...]) -> Apis:
    """The tables of all files together.  Raises ConfigError with file and line for whatever is wrong."""
    names: dict[str, dict[str, Any]] = {group: {} for group in _GROUPS}
    libraries: dict[str, Library] = {}
    for file in files:
        table = tomlfile.read(file, _WHAT)
        tomlfile.check_keys(table, (*_GROUPS, "libraries"), (), file)
        for group in _GROUPS:
            for name, value in _table(table, group, file).items():
                known = next((other for other in _GROUPS if name in names[other]), None)
                if known is not None:
                    raise tomlfile.wrong(file, (group, name), f"is in {known} already")
                names[group][name] = _entry(value, group, name, file)
        for name, value in _table(table, "libraries", file).items():
            libraries[name] = _library(name, value, file)
    return Apis(names, libraries)


def _table(table: Mapping[str, Any], key: str, file: Path) -> Mapping[str, Any]:
    given = table.get(key, {})
    if not isinstance(given, Mapping):
        raise tomlfile.wrong(file, (key,), "must be a table")
    value: Mapping[str, Any] = dict(_flat(given)) if key == "libraries" else given
    for name in value:
        if _NAME.fullmatch(name) is None or (key != "libraries" and "." not in name):
            place = tomlfile.place(file, key, name)
            remedy = 'Write it as "package.module.name", in quotes.'
            raise ConfigError(f"{name} is no full name of Python.", place=place, remedy=remedy)
    return value


def _flat(table: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """`[libraries.acme.kernels]` is the package acme.kernels, whether its name is quoted or not."""
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        inner = isinstance(value, Mapping) and value and all(isinstance(v, Mapping) for v in value.values())
        found += _flat(value, f"{above}{name}.") if inner else [(f"{above}{name}", value)]
    return found


def _entry(value: Any, group: str, name: str, file: Path) -> Any:
    keys = (group, name)
    if group == "review":
        if not isinstance(value, Mapping):
            raise tomlfile.wrong(file, keys, 'must be a table such as { to = "...", note = "what differs" }')
        tomlfile.check_keys(value, ("to", "note"), keys, file)
        _target(_text(value, "to", keys, file), (*keys, "to"), file)
        return {"to": value["to"], "note": _text(value, "note", keys, file)}
    text = _text({name: value}, name, (group,), file)
    if group == "to":
        _target(text, keys, file)
    return text


def _target(text: str, keys: tuple[str, ...], file: Path) -> None:
    if _NAME.fullmatch(text) is None or "." not in text:
        raise tomlfile.wrong(file, keys, f"must be a full name such as pk.synchronize, not {text!r}")


def _library(name: str, value: Any, file: Path) -> Library:
    keys = ("libraries", *name.split("."))
    if not isinstance(value, Mapping):
        raise tomlfile.wrong(file, keys, "must be a table with what and instead")
    tomlfile.check_keys(value, _LIBRARY, keys, file)
    asked = value.get("requirements", [])
    if not isinstance(asked, list) or not all(isinstance(item, str) and item for item in asked):
        raise tomlfile.wrong(file, (*keys, "requirements"), "must be a list of strings")
    return Library(name, _text(value, "what", keys, file), _text(value, "instead", keys, file), tuple(asked))


def _text(table: Mapping[str, Any], key: str, keys: tuple[str, ...], file: Path) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        what = "is missing" if value is None else "must be a text that is not empty"
        raise tomlfile.wrong(file, (*keys, key), what)
    return value
