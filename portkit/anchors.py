"""Where a comment on a line may stand: the first line of the statement, command or entry that holds it.

`starts(text, kind, name)` gives, for each line (from 0), the line above which a comment may be put, or None
where none may.  A comment there changes nothing that the file means.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence

from portkit.applying.quiet import quietly
from portkit.source import Kind

Starts = list[int | None]

_HEREDOC = re.compile(r"<<(?!<)(-?)\s*([\"']?)([A-Za-z_]\w*)\2")
_ESCAPE = re.compile(r"#\s*escape\s*=\s*`\s*$", re.IGNORECASE)


def lines_of(text: str) -> list[str]:
    """Lines with their ends, as editors and Python count them."""
    return [line for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text) if line]


def starts(text: str, kind: Kind, name: str) -> Starts:
    """For each line, where a comment on it may stand; empty for kinds of files without comments."""
    if kind is Kind.REQUIREMENTS and name.endswith((".yml", ".yaml")):
        kind = Kind.YAML
    find = _FINDERS.get(kind)
    return find(lines_of(text)) if find is not None else []


def comment_sign(kind: Kind) -> str:
    """What begins a comment."""
    return "//" if kind in (Kind.CUDA, Kind.CPP) else "#"


# --- Python -------------------------------------------------------------------------------------------


def _python(lines: Sequence[str]) -> Starts:
    try:
        with quietly():
            module = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [None] * len(lines)
    found: Starts = [None] * len(lines)
    stack: list[ast.AST] = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.stmt, ast.ExceptHandler)):
            own = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))]) - 1
            start = own if _begins_line(node, own, lines) else found[own]
            last = node.end_lineno or node.lineno
            found[own:last] = [start] * (last - own)
        stack += reversed(list(ast.iter_child_nodes(node)))
    return found


def _begins_line(node: ast.stmt | ast.ExceptHandler, own: int, lines: Sequence[str]) -> bool:
    """Whether only indentation stands before a statement, and no `\\` at the end of the line above."""
    decorated = bool(getattr(node, "decorator_list", ()))
    before = b"" if decorated else lines[own].encode()[: node.col_offset]
    return not before.strip() and not (own and lines[own - 1].rstrip("\r\n").endswith("\\"))


# --- shell, Dockerfile, requirements ------------------------------------------------------------------


def _continued(lines: Sequence[str], escape: str = "\\", heredocs: bool = False) -> Starts:
    found: Starts = []
    first: int | None = None  # of the command that goes on
    ends: list[tuple[str, bool]] = []  # marks of here-documents that are open
    for number, line in enumerate(lines):
        body = line.rstrip("\r\n")
        if ends:
            found.append(found[-1])
            if (body.lstrip("\t") if ends[0][1] else body) == ends[0][0]:
                ends.pop(0)
            continue
        if first is None:
            first = number
        found.append(first)
        if heredocs and not body.lstrip().startswith("#"):
            ends = [(match[3], bool(match[1])) for match in _HEREDOC.finditer(body)]
        goes_on = body.rstrip().endswith(escape) if heredocs else body.endswith(escape)
        skipped = first != number and (not body.strip() or body.lstrip().startswith("#"))
        if not goes_on and not (heredocs and skipped):
            first = None
    return found


def _dockerfile(lines: Sequence[str]) -> Starts:
    head = [line for line in lines[:5] if line.startswith("#")]
    escape = "`" if any(_ESCAPE.match(line.strip()) for line in head) else "\\"
    return _continued(lines, escape, heredocs=True)


def _shell(lines: Sequence[str]) -> Starts:
    found: Starts = []
    first: int | None = None
    quote = ""
    ends: list[tuple[str, bool]] = []
    for number, line in enumerate(lines):
        body = line.rstrip("\r\n")
        if ends:
            found.append(found[-1])
            if (body.lstrip("\t") if ends[0][1] else body) == ends[0][0]:
                ends.pop(0)
            continue
        first = number if first is None else first
        found.append(first if not (first == 0 and body.startswith("#!")) else None)
        quote, goes_on, ends = _shell_line(body, quote)
        if not quote and not goes_on:
            first = None
    return found


def _shell_line(body: str, quote: str) -> tuple[str, bool, list[tuple[str, bool]]]:
    """The quote that is open at the end of a line, whether the line goes on, and here-documents."""
    ends: list[tuple[str, bool]] = []
    at = 0
    while at < len(body):
        character = body[at]
        if character == "\\" and quote != "'":
            if at + 1 == len(body):
                return quote, True, ends
            at += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#" and (at == 0 or body[at - 1] in " \t;&|("):
            break
        elif character == "<" and (match := _HEREDOC.match(body, at)) and body[at - 1 : at] != "<":
            ends.append((match[3], bool(match[1])))
            at = match.end() - 1
        at += 1
    return quote, False, ends


# --- makefiles, CMake, INI ----------------------------------------------------------------------------


def _make(lines: Sequence[str]) -> Starts:
    """A comment in a recipe would go to the shell: it stands above the rule."""
    found = _continued(lines)
    for number, line in enumerate(lines):
        if line.startswith("\t"):
            found[number] = found[number - 1] if number else None
    return found


def _cmake(lines: Sequence[str]) -> Starts:
    found: Starts = []
    depth, first = 0, 0
    for number, line in enumerate(lines):
        first = first if depth else number
        found.append(first)
        code = re.sub(r"\"(?:\\.|[^\"\\])*\"|#.*", "", line)
        depth = max(0, depth + code.count("(") - code.count(")"))
        if code.count('"') or "[[" in code or "[=" in code:  # a text over several lines: unknown from here on
            return [*found, *([None] * (len(lines) - number - 1))]
    return found


def _ini(lines: Sequence[str]) -> Starts:
    """An indented line goes on with the value above."""
    found: Starts = []
    for number, line in enumerate(lines):
        goes_on = line[:1] in " \t" and line.strip() and found
        found.append(found[-1] if goes_on else number)
    return found


# --- YAML and TOML ------------------------------------------------------------------------------------

_ENTRY = re.compile(
    r"(?:[-?](?=\s|$)|(?:\"[^\"]*\"|'[^']*'|[^\s#\"'\[\]{}|>%@`,][^#]*?):(?=\s|$)|---|\.\.\.)\s*"
)
_BLOCK = re.compile(r"(?:[&!]\S+\s+)*[|>][-+0-9]*\s*(?:#.*)?$")


def _yaml(lines: Sequence[str]) -> Starts:
    found: Starts = []
    block: int | None = None  # column of the key whose block of text is open
    quote, depth = "", 0
    for number, line in enumerate(lines):
        body = line.rstrip("\r\n")
        indent = len(body) - len(body.lstrip(" "))
        if block is not None and (not body.strip() or indent > block):
            found.append(found[-1])
            continue
        block = None
        if quote or depth:
            found.append(found[-1])
            quote, depth = _yaml_value(body, quote, depth)
            continue
        column, rest = _yaml_entry(body, indent)
        if column is None and body.strip() and not body.lstrip().startswith("#"):
            found.append(found[-1] if found else number)  # a text goes on
            quote, depth = _yaml_value(body, quote, depth) if not found[:-1] else ("", 0)
            continue
        found.append(number)
        if _BLOCK.match(rest):
            block = column if column is not None else indent
        elif rest[:1] in "\"'[{":
            quote, depth = _yaml_value(rest, "", 0)
    return found


def _yaml_entry(body: str, indent: int) -> tuple[int | None, str]:
    """The column of the innermost key or dash that a line begins with, and what comes behind it."""
    at, column = indent, None
    while match := _ENTRY.match(body, at):
        column, at = at, match.end()
        if not body.startswith(("-", "?"), column):
            break
    return column, body[at:]


def _yaml_value(text: str, quote: str, depth: int) -> tuple[str, int]:
    """The quote and the number of brackets that are open behind some text."""
    at = 0
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\" and quote == '"':
                at += 1
            elif character == quote:
                quote = ""
        elif character in "\"'" and (at == 0 or text[at - 1] in " \t[{,:"):
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth = max(0, depth - 1)
        elif character == "#" and text[at - 1 : at] in ("", " ", "\t"):
            break
        at += 1
    return quote, depth


_TOML_ENTRY = re.compile(r"\s*(?:\[|[\w\"'.\- ]+=)")
_TOML_MARK = re.compile(r"\"\"\"|'''|\"(?:\\.|[^\"\\])*\"|'[^']*'|[\[\]{}]|#.*")


def _toml(lines: Sequence[str]) -> Starts:
    found: Starts = []
    mark, depth = "", 0  # of a text over several lines, and of brackets
    for number, line in enumerate(lines):
        body = line.rstrip("\r\n")
        if mark or depth:
            found.append(found[-1])
        else:
            found.append(number if _TOML_ENTRY.match(body) or not body.strip() else None)
        at = 0
        while at < len(body):
            if mark:
                end = body.find(mark, at)
                at = len(body) if end < 0 else end + 3
                mark = mark if end < 0 else ""
                continue
            match = _TOML_MARK.search(body, at)
            if match is None:
                break
            at = match.end()
            mark = match[0] if match[0] in ('"""', "'''") else ""
            depth += (match[0] in ("[", "{")) - (match[0] in ("]", "}"))
    return found


# --- C, C++ and CUDA ----------------------------------------------------------------------------------

_C_MARK = re.compile(
    r"//.*|/\*|R\"(?P<raw>[^()\s\\]{0,16})\(|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])+'|[()\[\]]|[^\s()\[\]\"'/]+|/"
)


def _c(lines: Sequence[str]) -> Starts:
    found: Starts = []
    close = ""  # what ends the comment or raw text that is open
    depth, first, goes_on = 0, 0, False
    for number, line in enumerate(lines):
        body = line.rstrip("\r\n")
        inside = bool(close)
        if not (inside or depth or goes_on):
            first = number
        found.append(first)
        close, depth, last = _c_line(body, close, depth)
        directive = lines[first].lstrip().startswith("#") and not inside
        if body.endswith("\\"):
            goes_on = True
        elif close or depth > 0:
            goes_on = goes_on or first != number
        elif directive or last is not None:
            goes_on = not (directive or str(last).endswith((";", "{", "}", ":")))
    return found


def _c_line(body: str, close: str, depth: int) -> tuple[str, int, str | None]:
    """What is open behind a line, and the last piece of code on it."""
    last: str | None = None
    at = 0
    while at < len(body):
        if close:
            end = body.find(close, at)
            if end < 0:
                return close, depth, last
            at, close = end + len(close), ""
            continue
        match = _C_MARK.search(body, at)
        if match is None:
            break
        at = match.end()
        word = match[0]
        if word == "/*":
            close = "*/"
        elif match["raw"] is not None:
            close, last = f'){match["raw"]}"', word
        elif not word.startswith("//"):
            last = word
            depth = max(0, depth + (word in ("(", "[")) - (word in (")", "]")))
    return close, depth, last


_FINDERS: dict[Kind, Callable[[Sequence[str]], Starts]] = {
    Kind.PYTHON: _python,
    Kind.NOTEBOOK: _python,
    Kind.SHELL: _shell,
    Kind.DOCKERFILE: _dockerfile,
    Kind.REQUIREMENTS: _continued,
    Kind.MAKE: _make,
    Kind.CMAKE: _cmake,
    Kind.INI: _ini,
    Kind.YAML: _yaml,
    Kind.TOML: _toml,
    Kind.CUDA: _c,
    Kind.CPP: _c,
}
