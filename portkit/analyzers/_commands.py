"""Command lines, wherever they stand: scripts, containers, CI files, makefiles, cells of notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from portkit.analyzers._lines import Line
from portkit.rule import Context
from portkit.source import Kind

KINDS = frozenset({Kind.SHELL, Kind.DOCKERFILE, Kind.YAML, Kind.MAKE, Kind.NOTEBOOK})

_CONTINUED = re.compile(r"\\[ \t]*\r?\n?\Z")
_MAGIC = re.compile(r"^\s*(?:[\w, ]+=\s*)?(?:!|%(?:pip|conda|mamba|env|set_env|sx|system|shell)\b)")
_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|shell|script|system)\b")
_SPOKEN = re.compile(r"^[\s@-]*(?:(?:RUN|run:)\s+)?(?:echo|printf)\b(?![^#]*[>|])")
_NAMED = re.compile(r"^\s*-?\s*(?:name|title|description|displayName|label|key|summary)\s*:\s*[\"']?\S+\s+\S")
# `cat <<EOF` shows the lines up to EOF; with a file or a command behind it, they are for that
_SHOWN = re.compile(
    r"(?:^|[\s;{(&|])cat\s+(?:[12]?>&[12]\s+)?<<-?\s*[\"']?(?P<end>\w+)[\"']?\s*(?:[12]?>&[12]\s*)?\Z"
)
_SLASHES = re.compile(r"(?:^|(?<=\s))//.*")


def is_spoken(line: str) -> bool:
    """Whether a command only prints what stands in it."""
    return _SPOKEN.match(line) is not None


def commands(ctx: Context) -> Iterator[Line]:
    """The command lines of a file or cell.  A line that is continued is one with those that continue it, and
    every character keeps its place; comments, and what is only printed, are blank."""
    lines: Iterable[Line]
    if ctx.kind is Kind.NOTEBOOK and not _SHELL_CELL.match(ctx.text):
        lines = (line for line in _logical(ctx.text, "#") if _MAGIC.match(line.text.lstrip()))
    else:
        lines = _logical(ctx.text, "/" if ctx.path.endswith((".groovy", "Jenkinsfile")) else "#")
    for line in lines:
        text = line.text.lstrip()  # patterns that skip spaces themselves take long over many of them
        if not _SPOKEN.match(text) and not (ctx.kind is Kind.YAML and _NAMED.match(text)):
            yield line


@lru_cache(maxsize=2)  # several rules look at the same file
def _logical(text: str, comment: str) -> tuple[Line, ...]:
    return tuple(_split(text, comment))


def _split(text: str, comment: str) -> Iterator[Line]:
    start, parts, offset = 0, "", 0
    end = ""  # the word that ends a text which is only shown
    for raw in text.splitlines(keepends=True):
        if end:
            offset += len(raw)
            end = "" if raw.strip() == end else end
            continue
        if not parts:
            start = offset
        offset += len(raw)
        body = raw.rstrip("\r\n")
        code = _uncommented(body, comment)
        if parts and not code.strip() and body.strip():
            parts += " " * len(raw)  # a comment between continued lines does not end the command
            continue
        match = _CONTINUED.search(raw) if code == body else None
        if match is not None:
            parts += raw[: match.start()] + " " * (len(raw) - match.start())
            continue
        yield Line(start, parts + code)
        shown = _SHOWN.search(parts + code)
        end = shown["end"] if shown is not None else ""
        parts = ""
    if parts:
        yield Line(start, parts)


def _uncommented(line: str, comment: str) -> str:
    if comment == "/":
        return _SLASHES.sub("", line)
    if "#" not in line:
        return line
    quote = ""
    for position, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and line.count(character, position) > 1:
            quote = character
        elif character == "#" and (not position or line[position - 1].isspace()):
            return line[:position]
    return line
