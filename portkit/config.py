"""[tool.portkit] in pyproject.toml, or portkit.toml: what to look at, which rules, and what the gate asks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from portkit import ruleset, tomlfile
from portkit.errors import ConfigError, UsageError
from portkit.rule import Rule

OPERATORS = ("cuda-bound", "compute", "all")
_GATE = ("coverage", "baseline", "parity", "max-slowdown")
_KEYS = (
    "include",
    "exclude",
    "respect-gitignore",
    "select",
    "ignore",
    "per-path-ignores",
    "operators",
    "apis",
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
    apis: tuple[Path, ...] = ()  # tables of in-house libraries
    gate: Mapping[str, Any] = field(default_factory=dict, hash=False)
    file: Path | None = None  # where it was read from
    above: str = field(default="", compare=False)  # from the folder of the settings down to the scanned root
    below: str = field(default="", compare=False)  # or the other way round

    def rules(self, known: Sequence[type[Rule]]) -> tuple[type[Rule], ...]:
        """The rules that `select` and `ignore` choose.  Raises ConfigError for a wrong table of `apis`."""
        chosen = ruleset.choose(known, self.select, self.ignore)
        return tuple(rule.configured(self.apis) for rule in chosen)

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
    data = tomlfile.read(file, "settings file")
    tool = data.get("tool", {})
    nested: dict[str, Any] | None = tool.get("portkit") if isinstance(tool, dict) else None
    if nested is not None and not isinstance(nested, dict):
        raise ConfigError("tool.portkit must be a table.", place=tomlfile.place(file, "tool", "portkit"))
    if file.name == "pyproject.toml" or nested is not None:
        return nested
    return data


def from_table(table: Mapping[str, Any], file: Path) -> Config:
    """Settings from a parsed table.  Raises ConfigError that names the file, the line and the key."""
    tomlfile.check_keys(table, _KEYS, (), file)
    gate = table.get("gate", {})
    if not isinstance(gate, Mapping):
        raise tomlfile.wrong(file, ("gate",), "must be a table")
    tomlfile.check_keys(gate, _GATE, ("gate",), file)
    operators = table.get("operators", "compute")
    if operators not in OPERATORS:
        what = f"must be one of {', '.join(OPERATORS)}, not {operators!r}"
        raise tomlfile.wrong(file, ("operators",), what)
    return Config(
        include=_strings(table, ("include",), file),
        exclude=_strings(table, ("exclude",), file),
        select=_ids(table, ("select",), file),
        ignore=_ids(table, ("ignore",), file),
        per_path_ignores=_per_path(table, file),
        respect_gitignore=_bool(table, "respect-gitignore", file, True),
        operators=operators,
        apis=tuple(file.parent / name for name in _strings(table, ("apis",), file)),
        gate=dict(gate),
        file=file,
    )


def _per_path(table: Mapping[str, Any], file: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    key = "per-path-ignores"
    value = table.get(key, {})
    if not isinstance(value, Mapping):
        raise tomlfile.wrong(file, (key,), "must be a table of pattern = [rule ids]")
    return tuple((pattern, _ids(value, (key, pattern), file)) for pattern in value)


def _bool(table: Mapping[str, Any], key: str, file: Path, default: bool) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise tomlfile.wrong(file, (key,), "must be true or false")
    return value


def _strings(table: Mapping[str, Any], keys: tuple[str, ...], file: Path) -> tuple[str, ...]:
    """The list of strings under the last of `keys`; `table` is what holds it."""
    value = table.get(keys[-1], [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise tomlfile.wrong(file, keys, "must be a list of strings")
    return tuple(value)


def _ids(table: Mapping[str, Any], keys: tuple[str, ...], file: Path) -> tuple[str, ...]:
    ids = _strings(table, keys, file)
    unknown = ruleset.unknown_id(ids) if ids else None
    if unknown is not None:
        what = f"{'.'.join(keys)} names no rule: {unknown[0]}."
        raise ConfigError(what, place=tomlfile.place(file, *keys), remedy=unknown[1])
    return ids
