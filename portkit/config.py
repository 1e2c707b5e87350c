"""[tool.portkit] in pyproject.toml, or portkit.toml: what to look at, which rules, and what the gate asks."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from portkit import ruleset
from portkit.errors import ConfigError, UsageError
from portkit.rule import Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OPERATORS = ("cuda-bound", "compute", "all")
_GATE = ("coverage", "parity")
_KEYS = (
    "include",
    "exclude",
    "respect-gitignore",
    "select",
    "ignore",
    "per-path-ignores",
    "operators",
    "gate",
)


@dataclass(frozen=True)
class Config:
    """The settings of one run.  Patterns are shell patterns on paths from the folder of the settings."""

    include: tuple[str, ...] = ()  # only these, if any
    exclude: tuple[str, ...] = ()
    select: tuple[str, ...] = ()  # rule ids or beginnings of ids; empty: all
    ignore: tuple[str, ...] = ()
    per_path_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    respect_gitignore: bool = True
    operators: str = "compute"  # "cuda-bound" | "compute" | "all"
    gate: Mapping[str, Any] = field(default_factory=dict, hash=False)
    file: Path | None = None  # where it was read from
    above: str = field(default="", compare=False)  # from the folder of the settings down to the scanned root
    below: str = field(default="", compare=False)  # or the other way round

    def rules(self, known: Sequence[type[Rule]]) -> tuple[type[Rule], ...]:
        """The rules that `select` and `ignore` choose."""
        return ruleset.choose(known, self.select, self.ignore)

    def wants(self, path: str) -> bool:
        """Whether a file found in a folder is to be looked at; `path` is relative to the scanned root."""
        path = self._here(path)
        if self.include and not any(matches(path, pattern) for pattern in self.include):
            return False
        return not any(matches(path, pattern) for pattern in self.exclude)

    def is_ignored(self, path: str, rule: str) -> bool:
        """Whether `per-path-ignores` takes a rule away for a path, which is relative to the scanned root."""
        path = self._here(path)
        return any(
            matches(path, pattern) and not ruleset.wanted(rule, (), ids)
            for pattern, ids in self.per_path_ignores
        )

    def anchored(self, root: Path) -> Config:
        """The same settings for paths relative to `root`."""
        if self.file is None:
            return self
        folder, top = Path(os.path.realpath(self.file.parent)), Path(os.path.realpath(root))
        above = f"{top.relative_to(folder).as_posix()}/" if folder in top.parents else ""
        below = f"{folder.relative_to(top).as_posix()}/" if top in folder.parents else ""
        return replace(self, above=above, below=below)  # settings from elsewhere speak of what is scanned

    def _here(self, path: str) -> str:
        """A path relative to the scanned root as one relative to the folder of the settings."""
        return self.above + path.removeprefix(self.below)

    def with_choice(self, select: Sequence[str], ignore: Sequence[str]) -> Config:
        """The same settings with rules named on the command line, which count more.

        Raises UsageError for an id that no rule has.
        """
        unknown = ruleset.unknown_id([*select, *ignore])
        if unknown is not None:
            raise UsageError(f"There is no rule {unknown[0]}.", remedy=unknown[1])
        return replace(self, select=tuple(select) or self.select, ignore=(*self.ignore, *ignore))


def matches(path: str, pattern: str) -> bool:
    """Whether a path, or a folder above it, fits a shell pattern; a pattern without `/` fits any part."""
    pattern = pattern.removeprefix("./").rstrip("/")
    parts = path.split("/")
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in parts)
    heads = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    tail = pattern.removeprefix("**/")
    return any(fnmatchcase(head, pattern) or fnmatchcase(head, tail) for head in heads)


def load(start: Path) -> Config:
    """The settings that hold for `start`: from the nearest portkit.toml or pyproject.toml at or above it.

    Looks no higher than the root of a git checkout.  Raises ConfigError for a file that is wrong.
    """
    folder = Path(os.path.realpath(start))  # takes link loops, unlike Path.resolve
    folder = folder if folder.is_dir() else folder.parent
    for place in (folder, *folder.parents):
        for name in ("portkit.toml", "pyproject.toml"):
            file = place / name
            if file.is_file():
                table = _table(file)
                if table is not None:
                    return from_table(table, file)
        if (place / ".git").exists():
            break
    return Config()


def load_file(file: Path) -> Config:
    """The settings of one file that the user named.  Raises UsageError or ConfigError."""
    if not file.is_file():
        raise UsageError("There is no such settings file.", place=str(file), remedy="Check the path.")
    return from_table(_table(file) or {}, file)


def _table(file: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"This is not valid TOML: {error}.", place=str(file)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The settings cannot be read: {error}.", place=str(file)) from None
    tool = data.get("tool", {})
    nested: dict[str, Any] | None = tool.get("portkit") if isinstance(tool, dict) else None
    if nested is not None and not isinstance(nested, dict):
        raise ConfigError("tool.portkit must be a table.", place=str(file))
    if file.name == "pyproject.toml" or nested is not None:
        return nested
    return data


def from_table(table: Mapping[str, Any], file: Path) -> Config:
    """Settings from a parsed table.  Raises ConfigError that names the file and the key."""
    _check_keys(table, _KEYS, "", file)
    gate = table.get("gate", {})
    if not isinstance(gate, Mapping):
        raise _wrong(file, "gate", "must be a table")
    _check_keys(gate, _GATE, "gate.", file)
    operators = table.get("operators", "compute")
    if operators not in OPERATORS:
        raise _wrong(file, "operators", f"must be one of {', '.join(OPERATORS)}, not {operators!r}")
    return Config(
        include=_strings(table, "include", file),
        exclude=_strings(table, "exclude", file),
        select=_ids(_strings(table, "select", file), "select", file),
        ignore=_ids(_strings(table, "ignore", file), "ignore", file),
        per_path_ignores=_per_path(table, file),
        respect_gitignore=_bool(table, "respect-gitignore", file, True),
        operators=operators,
        gate=dict(gate),
        file=file,
    )


def _per_path(table: Mapping[str, Any], file: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    key = "per-path-ignores"
    value = table.get(key, {})
    if not isinstance(value, Mapping):
        raise _wrong(file, key, "must be a table of pattern = [rule ids]")
    return tuple(
        (pattern, _ids(_strings(value, pattern, file, f"{key}."), f"{key}.{pattern}", file))
        for pattern in value
    )


def _bool(table: Mapping[str, Any], key: str, file: Path, default: bool) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise _wrong(file, key, "must be true or false")
    return value


def _strings(table: Mapping[str, Any], key: str, file: Path, prefix: str = "") -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(file, prefix + key, "must be a list of strings")
    return tuple(value)


def _ids(ids: tuple[str, ...], key: str, file: Path) -> tuple[str, ...]:
    unknown = ruleset.unknown_id(ids) if ids else None
    if unknown is not None:
        raise ConfigError(f"{key} names no rule: {unknown[0]}.", place=str(file), remedy=unknown[1])
    return ids


def _check_keys(table: Mapping[str, Any], known: Sequence[str], prefix: str, file: Path) -> None:
    for key in table:
        if key in known:
            continue
        near = difflib.get_close_matches(str(key), known, n=1)
        hint = f"Did you mean {prefix}{near[0]}?" if near else f"Known keys: {', '.join(known)}."
        raise ConfigError(f"There is no setting {prefix}{key}.", place=str(file), remedy=hint)


def _wrong(file: Path, key: str, what: str) -> ConfigError:
    return ConfigError(f"The setting {key} {what}.", place=str(file))
