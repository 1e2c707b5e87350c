"""Checks of a result: it compiles if the original did, and replacements are expressions in their places."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterator, Sequence

from portkit.applying import precedence
from portkit.applying.patch import Patch
from portkit.applying.quiet import quietly
from portkit.applying.tree import Lines, parentheses
from portkit.errors import ApplyError
from portkit.finding import Span
from portkit.scopes import walk

_POSITIONED = (ast.expr, ast.stmt, ast.alias, ast.arg, ast.keyword)
_BAD = (SyntaxError, ValueError, RecursionError, MemoryError)
_Place = tuple[int, int, int, int]  # first line and column, last line and column, as `ast` counts them


def parse_result(text: str) -> ast.Module:
    """Parse a result.  Raises ApplyError."""
    try:
        with quietly():
            return ast.parse(text)
    except _BAD as error:
        raise ApplyError(_invalid(error)) from None


def check_compiles(module: ast.Module, original: ast.Module) -> None:
    """Check that a result compiles, unless the original does not (a notebook cell with `await`).

    Raises ApplyError.
    """
    error = _refused(module)
    if error is not None and _refused(original) is None:
        raise ApplyError(_invalid(error))


def _refused(module: ast.Module) -> Exception | None:
    """Why a parsed text does not compile."""
    with quietly():
        try:
            compile(module, "<text>", "exec", dont_inherit=True)
        except _BAD as error:
            return error
    return None


def _invalid(error: Exception) -> str:
    return f"the result would not be valid Python ({getattr(error, 'msg', None) or error})"


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
    found = set(_places(module, {lines.place(span.start)[0] for span in expected}))
    missing = [span for span in expected if _place(lines, span) not in found]
    if not missing:
        return
    strings = [lines.span(node) for node in walk(module) if isinstance(node, ast.JoinedStr)]
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


def _places(module: ast.Module, rows: set[int]) -> Iterator[_Place]:
    """The places of the nodes that reach over one of some lines."""
    wanted = sorted(rows)
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _POSITIONED) and node.end_lineno is not None and node.end_col_offset is not None:
            above = getattr(node, "decorator_list", ())
            at = bisect.bisect_left(wanted, min(item.lineno for item in (*above, node)))
            if at == len(wanted) or wanted[at] > node.end_lineno:
                continue
            yield node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
        waiting += ast.iter_child_nodes(node)


def _place(lines: Lines, span: Span) -> _Place:
    return (*lines.place(span.start), *lines.place(span.end))
