"""`.gitignore` files as git reads them, for trees that git itself cannot list.

Patterns and paths are bytes, since git compares bytes: `?` is one of the two of an `ü` in UTF-8.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = ".gitignore"
_BOM = b"\xef\xbb\xbf"
_SLASH = ord("/")
_CLASS = re.compile(rb"\[:([^\]]*):\]")
_WILD = re.compile(rb"[*?\[\\]")
_NAMED = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, [*range(32), 127])),
    "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ",
    "punct": string.punctuation,
    "space": " \t\n\v\f\r",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


class _NeverMatches(Exception):
    """A pattern that git takes for broken: it fits nothing."""


@dataclass(frozen=True)
class Pattern:
    """One line of a `.gitignore`."""

    regex: re.Pattern[bytes]
    negated: bool
    only_folders: bool
    anchored: bool  # compared with the path below the file's folder; else with the last name alone


@dataclass(frozen=True)
class Level:
    """The patterns of one `.gitignore`."""

    folder: bytes  # of the file, relative to the walked root, with a slash at its end; empty for the root
    patterns: tuple[Pattern, ...]


def level(folder: Path, relative: bytes) -> Level | None:
    """The patterns that hold in a folder, if it has a `.gitignore`; one that cannot be read holds none."""
    try:
        data = (folder / NAME).read_bytes()
    except OSError:
        return None
    return Level(relative, parse(data))


def is_ignored(levels: Sequence[Level], path: bytes, folder: bool) -> bool:
    """Whether a path is ignored, given the levels of the folders above it, outermost first.

    Files in a folder that is ignored are not asked about: the folder is not entered.
    """
    name = path.rpartition(b"/")[2]
    for item in reversed(levels):
        below = path[len(item.folder) :]
        for pattern in reversed(item.patterns):
            if pattern.only_folders and not folder:
                continue
            if pattern.regex.fullmatch(below if pattern.anchored else name):
                return not pattern.negated
    return False


def parse(data: bytes) -> tuple[Pattern, ...]:
    """The patterns of a file, in order."""
    lines = data.removeprefix(_BOM).split(b"\n")
    found = (_pattern(_trimmed(line.removesuffix(b"\r"))) for line in lines)
    return tuple(item for item in found if item is not None)


def _trimmed(line: bytes) -> bytes:
    """Without the spaces at the end that no backslash protects."""
    end = len(line)
    while end and line[end - 1 : end] == b" ":
        slashes = len(line[: end - 1]) - len(line[: end - 1].rstrip(b"\\"))
        if slashes % 2:
            break
        end -= 1
    return line[:end]


def _pattern(line: bytes) -> Pattern | None:
    if not line or line.startswith(b"#"):
        return None
    negated = line.startswith(b"!")
    text = line[1:] if negated else line
    only_folders = text.endswith(b"/")
    text = text[:-1] if only_folders else text
    anchored = b"/" in text
    try:
        regex = _regex(text.removeprefix(b"/"), anchored)
    except _NeverMatches:
        return None
    return Pattern(re.compile(regex, re.DOTALL), negated, only_folders, anchored)


def _regex(text: bytes, anchored: bool) -> bytes:
    out = b""
    at = 0
    while at < len(text):
        char = text[at : at + 1]
        if char == b"*":
            part, at = _stars(text, at, anchored)
        elif char == b"?":
            part, at = b"[^/]", at + 1
        elif char == b"[":
            part, at = _set(text, at + 1)
        elif char == b"\\":
            if at + 1 == len(text):
                raise _NeverMatches
            part, at = re.escape(text[at + 1 : at + 2]), at + 2
        else:
            part, at = re.escape(char), at + 1
        out += part
    if not text:
        raise _NeverMatches
    return out


def _stars(text: bytes, at: int, anchored: bool) -> tuple[bytes, int]:
    """`*` stays within a name; `**` between slashes (or ends) goes over any number of folders.

    Git compares what stands before the first wildcard of a path apart, so that `**` behind it is a beginning.
    """
    end = at
    while text[end : end + 1] == b"*":
        end += 1
    begins = at == 0 or text[at - 1 : at] == b"/" or (anchored and not _WILD.search(text, 0, at))
    if end - at < 2 or not begins:
        return b"[^/]*", end
    if end == len(text):
        return b".*", end
    if text.startswith(b"/", end):
        return b"(?:.*/)?", end + 1
    return b".*" if text.startswith(b"\\/", end) else b"[^/]*", end


def _set(text: bytes, at: int) -> tuple[bytes, int]:
    """`[a-z]`, `[!x]`, `[[:alpha:]]`: one byte, never a slash; `at` is behind the bracket."""
    negated = text[at : at + 1] in (b"!", b"^") and at < len(text)
    at += negated
    chosen: set[int] = set()
    before: int | None = None  # the byte that a range may begin with
    first = True
    while True:
        if at >= len(text):
            raise _NeverMatches
        char = text[at]
        if char == ord("]") and not first:
            break
        first = False
        if char == ord("-") and before is not None and text[at + 1 : at + 2] not in (b"", b"]"):
            last, at = _byte(text, at + 1)
            chosen.update(range(before, last + 1))
            before = None
        elif (named := _CLASS.match(text, at)) is not None:
            name = named[1].decode("latin-1")
            if name not in _NAMED:
                raise _NeverMatches
            chosen.update(_NAMED[name].encode())
            before, at = None, named.end()
        else:
            before, at = _byte(text, at)
            chosen.add(before)
    fits = (set(range(1, 256)) - chosen if negated else chosen) - {_SLASH}
    inside = b"".join(re.escape(bytes([byte])) for byte in sorted(fits))
    return (b"[" + inside + b"]" if fits else b"(?!)"), at + 1


def _byte(text: bytes, at: int) -> tuple[int, int]:
    """A byte of a set, perhaps behind a backslash, and what follows it."""
    at += text[at : at + 1] == b"\\"
    if at >= len(text):
        raise _NeverMatches
    return text[at], at + 1
