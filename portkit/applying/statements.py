"""Removing statements: whole lines where one stands alone, `pass` where a body would be left empty."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from portkit.applying.patch import Patch, replace
from portkit.applying.tree import Lines
from portkit.errors import ApplyError
from portkit.finding import Span
from portkit.scopes import walk

_SEMICOLON = re.compile(r"(?:[ \t\f]|\\\r?\n)*;[ \t\f]*")
_BLANK = re.compile(r"[ \t\f]*(?:\r\n|\r|\n)")
_REST = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n|$)")


def bodies(module: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    """Every list of statements with the node that holds it."""
    for node in walk(module):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield node, value


def drop_statements(module: ast.AST, lines: Lines, spans: Iterable[Span]) -> list[Patch]:
    """Patches that remove the statements at `spans`.  Raises ApplyError where none stands."""
    left = set(spans)
    patches: list[Patch] = []
    for holder, body in bodies(module):
        chosen = [i for i, node in enumerate(body) if _matches(lines, node, left)]
        if chosen:
            left -= {span for i in chosen for span in _spans(lines, body[i])}
            patches += drop_from(holder, body, chosen, lines)
    if left:
        raise ApplyError("no statement stands at this place")
    return patches


def _spans(lines: Lines, node: ast.stmt) -> tuple[Span, Span]:
    """The span of a statement, without and with its decorators."""
    span = lines.span(node)
    return span, Span(full_start(lines, node), span.end)


def _matches(lines: Lines, node: ast.stmt, wanted: set[Span]) -> bool:
    return any(span in wanted for span in _spans(lines, node))


def full_start(lines: Lines, node: ast.stmt) -> int:
    """Where a statement starts, its decorators included."""
    decorators = getattr(node, "decorator_list", [])
    if not decorators:
        return lines.span(node).start
    first = min(lines.span(item).start for item in decorators)
    return lines.text.rindex("@", 0, first)


def drop_from(holder: ast.AST, body: Sequence[ast.stmt], chosen: Sequence[int], lines: Lines) -> list[Patch]:
    """Patches that remove some statements of one body."""
    if any(is_elif(holder, body[i], lines) for i in chosen):
        raise ApplyError("the statement is an `elif` branch")
    patches = []
    dropped = set(chosen)
    if len(chosen) == len(body) and not isinstance(holder, ast.Module):
        first = body[chosen[0]]
        patches.append(replace(full_start(lines, first), lines.span(first).end, "pass"))
        dropped.remove(chosen[0])
    for row in _rows(body, lines):
        patches += _drop_from_row(body, row, dropped, lines)
    return patches


def is_elif(holder: ast.AST, node: ast.stmt, lines: Lines) -> bool:
    """Whether an `if` is written as the `elif` of another."""
    return (
        isinstance(holder, ast.If)
        and isinstance(node, ast.If)
        and lines.text.startswith("elif", lines.span(node).start)
    )


def _rows(body: Sequence[ast.stmt], lines: Lines) -> Iterator[range]:
    """Runs of statements that semicolons join."""
    start = 0
    for i, node in enumerate(body):
        semicolon = _SEMICOLON.match(lines.text, lines.span(node).end)
        last = i + 1 == len(body)
        if last or semicolon is None or full_start(lines, body[i + 1]) != semicolon.end():
            yield range(start, i + 1)
            start = i + 1


def _drop_from_row(body: Sequence[ast.stmt], row: range, dropped: set[int], lines: Lines) -> list[Patch]:
    """Patches that remove the dropped statements of one row."""
    gone = [i for i in row if i in dropped]
    if not gone:
        return []
    kept = [i for i in row if i not in dropped]
    last = lines.span(body[row[-1]]).end
    semicolon = _SEMICOLON.match(lines.text, last)
    last += len(semicolon.group().rstrip()) if semicolon else 0
    if not kept:
        return [_whole_row(full_start(lines, body[row[0]]), last, lines)]
    patches = [
        replace(full_start(lines, body[i]), full_start(lines, body[i + 1]), "") for i in gone if i < kept[-1]
    ]
    if gone[-1] > kept[-1]:
        patches.append(replace(lines.span(body[kept[-1]]).end, last, ""))
    return patches


def _whole_row(start: int, end: int, lines: Lines) -> Patch:
    """The patch that removes a row with its line, or lines, and the comment at its end."""
    begin = lines.start(start)
    rest = _REST.match(lines.text, end)
    if rest is None or lines.text[begin:start].strip():
        raise ApplyError("the statement shares its line with what can't be separated from it")
    return replace(begin, _past_blank(begin, rest.end(), lines), "")


def _past_blank(begin: int, end: int, lines: Lines) -> int:
    """Where a removal of whole lines [begin, end) should end, so that runs of blank lines don't add up."""
    blank, above = 0, ""
    while begin > 0 and not above:
        start = lines.start(begin - 1)
        above = lines.text[start:begin].strip()
        begin, blank = start, blank + (not above)
    opens = above.endswith(":") and not above.startswith("#")
    while (blank > 0 or opens) and (found := _BLANK.match(lines.text, end)):
        end, blank = found.end(), blank - 1
    return end
