"""CUDA C++ as text, with comments and strings as blanks: its kernels, their launches, what they use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from portkit import tables

_NOT_CODE = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?\*/|R\"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'",
    re.S,
)
_GLOBAL = re.compile(r"\b__global__\b|\bCUTLASS_GLOBAL\b")
_WORD = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\s*##\s*\w+)*)\s*(?P<next>[(<;{}]?)")
_INCLUDE = re.compile(r"[ \t]*#[ \t]*include[ \t]*\Z")
_ATTRIBUTES = re.compile(r"__\w+__\Z|alignas\Z|[A-Z][A-Z0-9_]*\Z")


@dataclass(frozen=True)
class Kernel:
    """A `__global__` function."""

    name: str
    start: int  # of its name
    end: int
    body: str  # empty for a declaration
    body_start: int
    body_end: int


@dataclass(frozen=True)
class Launch:
    """A place where a kernel is launched."""

    name: str
    start: int  # of the kernel's name
    end: int


def code(text: str) -> str:
    """The text with comments and strings as blanks: all keeps its place. Paths of `#include` stay."""

    def blank(match: re.Match[str]) -> str:
        start = text.rfind("\n", 0, match.start()) + 1
        if match[0].startswith('"') and _INCLUDE.match(text, start, match.start()):
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return _NOT_CODE.sub(blank, text)


def kernels(text: str) -> Iterator[Kernel]:
    """The kernels that code defines, and those that it only declares."""
    for match in _GLOBAL.finditer(text):
        found = _named(text, match.end())
        if found is None:
            continue
        start, end = found
        opened = text.find("(", end)
        if opened < 0:
            continue
        closed = _closing(text, opened, "(", ")")
        behind = re.compile(r"[\s\w]*(?P<next>[{;]?)").match(text, closed + 1)
        if behind is None or behind["next"] != "{":
            yield Kernel(text[start:end], start, end, "", end, end)
            continue
        last = _closing(text, behind.start("next"), "{", "}")
        yield Kernel(
            text[start:end], start, end, text[behind.start("next") : last + 1], match.start(), last + 1
        )


def _named(text: str, position: int) -> tuple[int, int] | None:
    """Where the name of the function stands whose `__global__` ends at `position`."""
    for _ in range(12):
        match = _WORD.search(text, position)
        if match is None or match["next"] in (";", "{", "}"):
            return None
        if match["next"] == "(" and _ATTRIBUTES.match(match["name"]) and _again(text, match.end() - 1):
            position = _closing(text, match.end() - 1, "(", ")") + 1
        elif match["next"] in ("(", "<"):
            return match.span("name")
        else:
            position = match.end("name")
    return None


def _again(text: str, opened: int) -> bool:
    """Whether a name follows the parentheses that open here: they belong to an attribute such as a bound."""
    closed = _closing(text, opened, "(", ")")
    return re.compile(r"\s*[A-Za-z_]").match(text, closed + 1) is not None


def _closing(text: str, opened: int, left: str, right: str) -> int:
    """The position of the bracket that closes the one at `opened`; the end of the text if none does."""
    depth = 0
    for match in re.compile(rf"[{re.escape(left + right)}]").finditer(text, opened):
        depth += 1 if match[0] == left else -1
        if depth == 0:
            return match.start()
    return len(text) - 1


def launches(text: str) -> Iterator[Launch]:
    """The places with `kernel<<<...>>>`."""
    for match in re.finditer(r"<<<(?!<)", text):
        end = len(text[: match.start()].rstrip())
        if end and text[end - 1] == ">":
            end = _opening(text, end - 1)
        end = len(text[:end].rstrip()) if end > 0 else 0
        start = end
        while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        if start < end and not text[start].isdigit():
            yield Launch(text[start:end], start, end)


def _opening(text: str, closed: int) -> int:
    depth = 0
    for position in range(closed, max(closed - 2000, -1), -1):
        depth += {">": 1, "<": -1}.get(text[position], 0)
        if text[position] in ";{}" and position != closed:
            return 0
        if depth == 0:
            return position
    return 0


@cache
def _features() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(row["pattern"]), row["what"]) for row in tables.load("cuda_source")["feature"])


def features(body: str) -> list[str]:
    """What a piece of code uses that is hard to port."""
    return [what for pattern, what in _features() if pattern.search(body)]
