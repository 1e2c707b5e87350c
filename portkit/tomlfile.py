"""TOML files that a person writes: read with errors that name the file and the line."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from portkit.errors import ConfigError, caret

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BROKEN = re.compile(r"\(at line (\d+), column (\d+)\)")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_DOT = re.compile(r"[ \t]*\.[ \t]*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")|'
    r"'''.*?'{3,5}(?!')|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^\s,\]\}#][^,\]\}#\n]*")

Keys = tuple[str, ...]


def read(file: Path, what: str = "file") -> dict[str, Any]:
    """The data of a file.  Raises ConfigError where it cannot be read, or is not TOML."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"The {what} cannot be read: {reason}.", place=str(file)) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"The {what} cannot be read: it is not UTF-8.", place=f"{file}:{line}") from None
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_toml(file, text, str(error)) from None
    except RecursionError:
        raise ConfigError("This is not valid TOML: it is nested too deeply.", place=str(file)) from None
    return data


def _not_toml(file: Path, text: str, said: str) -> ConfigError:
    found = _BROKEN.search(said)
    reason = _BROKEN.sub("", said).strip().removesuffix(" (at end of document)")
    lines = text.splitlines() or [""]
    line, column = (int(found[1]), int(found[2])) if found else (len(lines), len(lines[-1]) + 1)
    source = caret(lines[line - 1], column) if line <= len(lines) else ""
    return ConfigError(
        f"This is not valid TOML: {reason[:1].lower()}{reason[1:]}.",
        place=f"{file}:{line}:{column}",
        remedy="Mend this line.",
        source=source,
    )


def place(file: Path, *keys: str) -> str:
    """`file:line` of a key in a file that was read; the nearest table around it where it has no line."""
    try:
        lines = dict(_keys(file.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError, ValueError):
        return str(file)
    for path in (("tool", "portkit", *keys), keys):
        if path in lines:
            return f"{file}:{lines[path]}"
    return place(file, *keys[:-1]) if len(keys) > 1 else str(file)


def wrong(file: Path, keys: Sequence[str], what: str, remedy: str = "") -> ConfigError:
    """The error about one key: "The setting a.b must be ..."."""
    return ConfigError(f"The setting {'.'.join(keys)} {what}.", place=place(file, *keys), remedy=remedy)


def check_keys(table: Mapping[str, Any], known: Sequence[str], keys: Sequence[str], file: Path) -> None:
    """Raises ConfigError for the first key of the table at `keys` that is not known."""
    for key in table:
        if key in known:
            continue
        dotted = "".join(f"{part}." for part in keys)
        near = difflib.get_close_matches(str(key), known, n=1)
        hint = f"Did you mean {dotted}{near[0]}?" if near else f"Known keys: {', '.join(known)}."
        raise ConfigError(f"There is no setting {dotted}{key}.", place=place(file, *keys, key), remedy=hint)


# --- the lines of keys, in text that is known to be TOML ----------------------------------------------


def _keys(text: str) -> Iterator[tuple[Keys, int]]:
    """Every key with the line that it stands on, tables included; ValueError where the text is not TOML."""
    at = _skip(_BLANK, text, 0)
    table: Keys = ()
    while at < len(text):
        if text[at] == "[":
            double = text.startswith("[[", at)
            table, at = _dotted(text, at + 1 + double)
            yield from _prefixes((), table, text, at)
            at = text.index("]", at) + 1 + double
        else:
            at = yield from _pair(text, at, table)
        at = _skip(_BLANK, text, at)


def _pair(text: str, at: int, table: Keys) -> Generator[tuple[Keys, int], None, int]:
    """`key = value`; returns where it ends."""
    key, end = _dotted(text, at)
    yield from _prefixes(table, key, text, at)
    at = text.index("=", end) + 1
    return (yield from _value(text, _skip(_SPACE, text, at), (*table, *key)))


def _prefixes(table: Keys, key: Keys, text: str, at: int) -> Iterator[tuple[Keys, int]]:
    line = text.count("\n", 0, at) + 1
    yield from (((*table, *key[: count + 1]), line) for count in range(len(key)))


def _value(text: str, at: int, path: Keys) -> Generator[tuple[Keys, int], None, int]:
    """A value, with the keys of tables inside it; returns where it ends."""
    if text[at] == "{":
        at = _skip(_BLANK, text, at + 1)
        while text[at] != "}":
            at = yield from _pair(text, at, path)
            at = _skip(_BLANK, text, at)
            at = _skip(_BLANK, text, at + 1) if text[at] == "," else at
        return at + 1
    if text[at] == "[":
        at = _skip(_BLANK, text, at + 1)
        while text[at] != "]":
            at = yield from _value(text, at, path)
            at = _skip(_BLANK, text, at)
            at = _skip(_BLANK, text, at + 1) if text[at] == "," else at
        return at + 1
    found = _STRING.match(text, at) or _SCALAR.match(text, at)
    if found is None:
        raise ValueError(at)
    return found.end()


def _dotted(text: str, at: int) -> tuple[Keys, int]:
    """A key such as `a."b c".d`, and where it ends."""
    keys: list[str] = []
    at = _skip(_SPACE, text, at)
    while True:
        found = _KEY.match(text, at)
        if found is None:
            raise ValueError(at)
        keys.append(_plain(found[0]))
        dot = _DOT.match(text, found.end())
        if dot is None:
            return tuple(keys), found.end()
        at = dot.end()


def _plain(key: str) -> str:
    return str(tomllib.loads(f"key = {key}")["key"]) if key[0] in "\"'" else key


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at
