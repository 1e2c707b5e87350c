"""Checks of a result: it compiles if the original did, and replacements are expressions in their places."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from portkit.applying import precedence
from portkit.applying.patch import Patch
from portkit.applying.quiet import quietly
from portkit.applying.tree import Lines, parentheses
from portkit.errors import ApplyError
from portkit.finding import Span

_POSITIONED = (ast.expr, ast.stmt, ast.alias, ast.arg, ast.keyword)
_Place = tuple[int, int, int, int]  # first line and column, last line and column, as `ast` counts them


def compiles(module: ast.Module) -> bool:
    """Whether a parsed text also compiles (a notebook cell with `await` does not)."""
    with quietly():
        try:
            compile(module, "<text>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def parse_result(text: str, *, compiled: bool) -> ast.Module:
    """Parse a result, and compile it if the original compiled.  Raises ApplyError."""
    try:
        with quietly():
            module = ast.parse(text)
            if compiled:
                compile(module, "<text>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise ApplyError(f"the result would not be valid Python ({reason})") from None
    return module


def check_replacements(
    module: ast.Module, text: str, patches: Sequence[Patch], replacements: set[Patch]
) -> None:
    """Check that every replaced expression is one expression, at its place, in the result.

    `patches` are all patches, in order; `replacements` those that put an expression in the place of another.
    Raises ApplyError.
    """
    expected = list(_expected(patches, replacements))
    if not expected:
        return
    lines = Lines(text)
    found = set(_places(module))
    missing = [span for span in expected if _place(lines, span) not in found]
    if not missing:
        return
    strings = [lines.span(node) for node in ast.walk(module) if isinstance(node, ast.JoinedStr)]
    for span in missing:
        around = parentheses(text, span)  # a tuple counts those that were there as its own
        as_tuple = around is not None and _place(lines, around) in found
        # Before Python 3.12, places inside f-strings are not exact.
        inside = any(string.start < span.start and span.end < string.end for string in strings)
        if not as_tuple and not inside:
            raise ApplyError("the rewrite would not stand as one expression at its place")


def _expected(patches: Sequence[Patch], replacements: set[Patch]) -> Iterator[Span]:
    """Where in the result the replacing expressions must stand."""
    shift = 0
    for patch in patches:
        found = _root(patch.text) if patch in replacements else None
        if found is not None:
            at = patch.start + shift
            yield Span(at + found.start, at + found.end)
        shift += len(patch.text) - (patch.end - patch.start)


def _root(text: str) -> Span | None:
    """Where, in a replacement, its outermost expression is; None if it is not an expression."""
    try:
        node, shift = precedence.parse(text)
    except (SyntaxError, ValueError):
        return None
    span = Lines(f"({text}\n)" if shift else text).span(node)
    return Span(span.start - shift, span.end - shift)


def _places(module: ast.Module) -> Iterator[_Place]:
    for node in ast.walk(module):
        if isinstance(node, _POSITIONED) and node.end_lineno is not None and node.end_col_offset is not None:
            yield node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _place(lines: Lines, span: Span) -> _Place:
    return (*lines.place(span.start), *lines.place(span.end))
