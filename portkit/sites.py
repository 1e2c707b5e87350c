"""Facts of the place where a finding stands: when it runs, what a report shows of it, what tells it apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from portkit.scopes import FUNCTIONS, Tree

SNIPPET = 200  # characters of source that a report shows
_FORMAT = re.compile(r"\s+|,(?=\s*[)\]}])")


def runs_at_import(node: ast.AST, tree: Tree) -> bool:
    """Whether `node` is evaluated when its module is imported: not in the body of a function, not where the
    module is run as a program, not for type checkers only.  Decorators, defaults and class bodies are."""
    inner = node
    for outer in tree.ancestors(node):
        if isinstance(outer, FUNCTIONS) and inner in outer.body:
            return False
        if isinstance(outer, ast.Lambda) and inner is outer.body:
            return False
        if isinstance(outer, ast.If) and inner is not outer.test and not _runs(outer, inner):
            return False
        if _is_annotation(outer, inner) and _postponed(tree.module):
            return False
        inner = outer
    return True


def _runs(test: ast.If, inner: ast.AST) -> bool:
    """Whether the branch of `test` that holds `inner` is taken by an import, as far as can be told."""
    taken = taken_by_import(test.test)
    return taken is None or taken == (inner in test.body)


def taken_by_import(test: ast.expr) -> bool | None:
    """Whether a condition holds when a module is imported; None if it is not about that."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = taken_by_import(test.operand)
        return None if inner is None else not inner
    if isinstance(test, (ast.Name, ast.Attribute)):
        name = test.id if isinstance(test, ast.Name) else test.attr
        return False if name == "TYPE_CHECKING" else None
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return False if any(taken_by_import(value) is False for value in test.values) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    sides = (test.left, test.comparators[0])
    named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    main = any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)
    if not (named and main):
        return None
    return {ast.Eq: False, ast.NotEq: True}.get(type(test.ops[0]))


def equal(first: ast.AST, second: ast.AST) -> bool:
    """Whether two pieces of syntax are the same but for where they stand."""
    pairs: list[tuple[object, object]] = [(first, second)]
    while pairs:
        one, other = pairs.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, ast.AST):
            pairs += [(getattr(one, name, None), getattr(other, name, None)) for name in one._fields]
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs += zip(one, other, strict=True)
        elif one != other:
            return False
    return True


def _is_annotation(outer: ast.AST, inner: ast.AST) -> bool:
    if isinstance(outer, (ast.arg, ast.AnnAssign)):
        return inner is outer.annotation
    return isinstance(outer, FUNCTIONS) and inner is outer.returns


def _postponed(module: ast.Module) -> bool:
    first = module.body[:8]  # behind a docstring, before everything else
    imports = [item for item in first if isinstance(item, ast.ImportFrom) and item.module == "__future__"]
    return any(name.name == "annotations" for item in imports for name in item.names)


def last_line(node: ast.AST, end: int) -> int:
    """The last line of a node that a snippet shows: a definition or a block is shown without its body."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.AST):
        return max(getattr(body[0], "lineno", end) - 1, getattr(node, "lineno", end))
    return end


def snippet(lines: Iterator[str]) -> str:
    """Source lines as one line of text."""
    text = " ".join(filter(None, (line.strip() for line in lines)))
    return text if len(text) <= SNIPPET else f"{text[: SNIPPET - 1]}…"


def key(line: str, own: str) -> str:
    """What tells one site from others: its line and its own text, without comments, quotes and layout."""
    return "\0".join(_FORMAT.sub("", _uncommented(text).replace('"', "'")) for text in (line, own))


def _uncommented(line: str) -> str:
    """A line up to its comment, in the languages where `#` begins one; strings keep theirs."""
    quote = ""
    for position, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#":
            return line[:position]
    return line
