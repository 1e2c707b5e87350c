"""The packages that pyproject.toml, pixi.toml, Pipfile and setup.cfg ask for, as text with their versions."""

from __future__ import annotations

import configparser
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_OPTIONS = ("install_requires", "setup_requires", "tests_require")
_PIPFILE = frozenset({"source", "requires", "scripts", "pipenv"})  # its tables that list no packages
_PIXI = ("dependencies", "host-dependencies", "build-dependencies", "pypi-dependencies")
_DEPTH = 6


def of_pyproject(text: str) -> Iterator[str]:
    """The requirements of a pyproject.toml: those of the standard, and of the tools that have their own."""
    data = _read(text)
    project, tool = _table(data, "project"), _table(data, "tool")
    yield from _strings(project.get("dependencies"))
    yield from _strings(_table(data, "build-system").get("requires"))
    for groups in (_table(project, "optional-dependencies"), _table(data, "dependency-groups")):
        yield from _strings(groups)
    poetry = _table(tool, "poetry")
    for holder in (poetry, *_tables(_table(poetry, "group"))):
        for key in ("dependencies", "dev-dependencies"):
            yield from _named(_table(holder, key))
    yield from _strings(_table(tool, "pdm").get("dev-dependencies"))
    for name in ("uv", "rye"):
        yield from _strings(_table(tool, name).get("dev-dependencies"))
    for environment in _tables(_table(_table(tool, "hatch"), "envs")):
        for key in ("dependencies", "extra-dependencies"):
            yield from _strings(environment.get(key))
    yield from _pixi(_table(tool, "pixi"))


def of_pixi(text: str) -> Iterator[str]:
    """The requirements of a pixi.toml."""
    yield from _pixi(_read(text))


def of_pipfile(text: str) -> Iterator[str]:
    """The requirements of a Pipfile: of `packages`, `dev-packages`, and categories of the user's own."""
    for key, table in _read(text).items():
        if key not in _PIPFILE and isinstance(table, dict):
            yield from _named(table)


def of_setup_cfg(text: str) -> Iterator[str]:
    """The requirements of a setup.cfg."""
    parser = configparser.RawConfigParser(strict=False, comment_prefixes=("#", ";"))
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    values = [parser.get("options", key, fallback="") for key in _OPTIONS]
    if parser.has_section("options.extras_require"):
        values += [value for _, value in parser.items("options.extras_require")]
    for value in values:
        lines = (re.sub(r"(?:^|\s)#.*", "", line).strip() for line in value.splitlines())
        yield from filter(None, lines)


def _pixi(data: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The dependencies of a table of pixi's, and of its features and targets."""
    for key in _PIXI:
        yield from _named(_table(data, key))
    for key in ("feature", "target"):
        for inner in _tables(_table(data, key)) if depth < _DEPTH else ():
            yield from _pixi(inner, depth + 1)


def _read(text: str) -> Mapping[str, Any]:
    try:
        data: Mapping[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    return data


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _tables(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from (item for item in data.values() if isinstance(item, dict))


def _strings(value: object) -> Iterator[str]:
    """The texts of a list, or of a table of lists."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _strings(item) if isinstance(item, list) else ()
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))


def _named(table: Mapping[str, Any]) -> Iterator[str]:
    """`name = "^1.2"` and `name = {version = "1.2"}` as the standard writes them."""
    yield from (name + _version(value) for name, value in table.items() if name != "python")


def _version(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("git"), str):
        return f" @ git+{value['git']}"
    version = value.get("version", "") if isinstance(value, dict) else value
    if not isinstance(version, str) or version in ("", "*"):
        return ""
    if version[0].isdigit():
        return f"=={version}"
    return version.replace("^", ">=") if version[0] != "~" or version.startswith("~=") else f">={version[1:]}"
