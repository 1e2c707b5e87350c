"""Imports that edited code needs, and imports that nothing uses any more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from portkit.applying.names import is_used
from portkit.applying.patch import Patch, carry_out, closing, opening, replace
from portkit.applying.quiet import quietly
from portkit.applying.statements import bodies, drop_from, full_start
from portkit.applying.tree import Lines
from portkit.errors import ApplyError
from portkit.finding import DropImport, NeedImport
from portkit.scopes import walk

_FUTURE = "__future__"
_BLANK = re.compile(r"(?:\r\n|\r(?!\n)|\n)[ \t\f]*[\r\n]")


def settle(
    text: str, needs: Iterable[NeedImport], drops: Iterable[DropImport], *, init: bool = False, head: int = 0
) -> list[list[Patch]]:
    """Patches, in rounds (each for the text after the one before), that add and remove imports.

    `init` says that the text is an `__init__.py`, whose imports may be there for others.  `head` is the
    number of first statements that must stay first (a cell magic), beyond a docstring and `__future__`.
    """
    return [patches for _, patches in settled(text, needs, drops, init=init, head=head)]


def settled(
    text: str, needs: Iterable[NeedImport], drops: Iterable[DropImport], *, init: bool = False, head: int = 0
) -> list[tuple[str, list[Patch]]]:
    """As `settle`, each round with what it does: `+name` adds the import of a name, `-name` removes it."""
    rounds: list[tuple[str, list[Patch]]] = []
    for need in dict.fromkeys(needs):
        text = _round(text, rounds, f"+{local(need)}", _add(text, need, head))
    for drop in dict.fromkeys(drops):
        text = _round(text, rounds, f"-{drop.local}", _remove(text, drop.local, init=init))
    return rounds


def _round(text: str, rounds: list[tuple[str, list[Patch]]], what: str, patches: list[Patch]) -> str:
    if not patches:
        return text
    rounds.append((what, patches))
    return carry_out(text, patches)


def _parse(text: str) -> tuple[ast.Module, Lines]:
    with quietly():
        return ast.parse(text), Lines(text)


# --- adding ---------------------------------------------------------------------------------------


def statement(need: NeedImport) -> str:
    """The import as a statement."""
    alias = f" as {need.alias}" if need.alias and need.alias != (need.name or need.module) else ""
    if need.name is not None:
        return f"from {need.module} import {need.name}{alias}"
    return f"import {need.module}{alias}"


def local(need: NeedImport) -> str:
    """The name that the import binds."""
    return need.alias or need.name or need.module.partition(".")[0]


def provides(node: ast.stmt, need: NeedImport) -> bool:
    """Whether an import statement already binds what is needed."""
    if isinstance(node, ast.Import) and need.name is None:
        return any(alias.name == need.module and (alias.asname or None) == need.alias for alias in node.names)
    if isinstance(node, ast.ImportFrom) and not node.level:
        if need.name is not None:
            wanted = need.alias or need.name
            return node.module == need.module and any(
                alias.name == need.name and (alias.asname or alias.name) == wanted for alias in node.names
            )
        package, _, name = need.module.rpartition(".")
        return (
            bool(need.alias)
            and node.module == package
            and any(alias.name == name and (alias.asname or alias.name) == need.alias for alias in node.names)
        )
    return False


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == _FUTURE


def _first_use(body: Sequence[ast.stmt], name: str) -> int:
    """Index of the first statement that uses a name; functions run later, but are counted all the same."""
    for i, node in enumerate(body):
        if any(isinstance(child, ast.Name) and child.id == name for child in walk(node)):
            return i
    return len(body)


def _add(text: str, need: NeedImport, head: int) -> list[Patch]:
    module, lines = _parse(text)
    body = module.body
    use = _first_use(body, local(need))
    if any(provides(node, need) for node in body[:use]):
        return []
    for node in body[:use]:
        if need.name is not None and _can_take(node, need.module):
            assert isinstance(node, ast.ImportFrom)
            return [_extend(node, need, lines)]
    return [_insertion(body, use, need, lines, head)]


def _can_take(node: ast.stmt, module: str) -> bool:
    return (
        isinstance(node, ast.ImportFrom)
        and not node.level
        and node.module == module
        and all(alias.name != "*" for alias in node.names)
    )


def _extend(node: ast.ImportFrom, need: NeedImport, lines: Lines) -> Patch:
    """Add a name at the end of a from-import."""
    last = lines.span(node.names[-1])
    alias = f" as {need.alias}" if need.alias and need.alias != need.name else ""
    first = lines.span(node.names[0])
    own = lines.number(first.start) != lines.number(lines.span(node).start)
    gap = lines.newline() + lines.text[lines.start(last.start) : last.start] if own else " "
    if own and gap.strip():  # several names on the last line
        gap = " "
    return closing(last.end, f",{gap}{need.name}{alias}", 0)


def _insertion(body: Sequence[ast.stmt], use: int, need: NeedImport, lines: Lines, head: int) -> Patch:
    """Add an import after the first block of imports, or before the first use if that is earlier."""
    newline = lines.newline()
    while head < len(body) and ((head == 0 and _is_docstring(body[0])) or _is_future(body[head])):
        head += 1
    at = max(head, min(_end_of_group(body, head, lines), use))
    if at == 0:
        start = lines.start(full_start(lines, body[0])) if body else len(lines.text)
        lead = newline if start and not lines.text[:start].endswith(("\n", "\r")) else ""
        return opening(start, f"{lead}{statement(need)}{newline}{newline if body else ''}", 0)
    last = body[at - 1]
    end = lines.span(last).end
    while at < len(body) and lines.number(full_start(lines, body[at])) == lines.number(end):
        end = lines.span(body[at]).end  # joined by a semicolon
        at += 1
        if at > use:
            return _before_row(body, at - 1, need, lines, head)
    position = lines.end(end)
    in_block = isinstance(last, ast.Import | ast.ImportFrom) and not _is_future(last)
    lead = "" if in_block else newline
    tail = newline if not in_block and at < len(body) and not _blank_follows(lines, position) else ""
    if not lines.text[:position].endswith(("\n", "\r")):  # the file has no newline at its end
        return opening(position, f"{newline}{lead}{statement(need)}", 0)
    return opening(position, f"{lead}{statement(need)}{newline}{tail}", 0)


def _before_row(body: Sequence[ast.stmt], at: int, need: NeedImport, lines: Lines, head: int) -> Patch:
    """Add an import before the row of statements, joined by semicolons, that ends with its first use."""
    while at > 0 and lines.number(full_start(lines, body[at])) == lines.number(lines.span(body[at - 1]).end):
        at -= 1
    if at < head:
        raise ApplyError("an import can't stand before its first use")
    return opening(lines.start(full_start(lines, body[at])), f"{statement(need)}{lines.newline()}", 0)


def _end_of_group(body: Sequence[ast.stmt], head: int, lines: Lines) -> int:
    """Index after the group of imports that torch is in, else after the first block of imports.

    Groups are what blank lines separate: the standard library, other people's packages, the user's own.
    """
    found = (i for i in range(head, len(body)) if isinstance(body[i], ast.Import | ast.ImportFrom))
    end = start = next(found, head)
    while end < len(body) and isinstance(body[end], ast.Import | ast.ImportFrom):
        end += 1
    cuts = [i for i in range(start + 1, end) if _blank_between(lines, body[i - 1], body[i])]
    groups = [range(*pair) for pair in pairwise([start, *cuts, end])]
    of_torch = [group.stop for group in groups if any(_is_of(body[i], "torch") for i in group)]
    return of_torch[-1] if of_torch else end


def _blank_between(lines: Lines, one: ast.stmt, other: ast.stmt) -> bool:
    return _BLANK.search(lines.text, lines.span(one).end, full_start(lines, other)) is not None


def _is_of(node: ast.stmt, package: str) -> bool:
    """Whether a statement imports from a package."""
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] == package
    return isinstance(node, ast.Import) and any(a.name.partition(".")[0] == package for a in node.names)


def _blank_follows(lines: Lines, position: int) -> bool:
    row = lines.text[position : lines.end(position)] if position < len(lines.text) else ""
    return not row.strip()


# --- removing -------------------------------------------------------------------------------------


def _remove(text: str, name: str, *, init: bool) -> list[Patch]:
    """Remove the imports that bound `name`, if nothing uses it."""
    module, lines = _parse(text)
    if init or is_used(module, text, name.partition(".")[0], dotted="." in name):
        return []
    patches: list[Patch] = []
    for holder, body in bodies(module):
        if isinstance(holder, ast.Try | ast.ExceptHandler | ast.If):
            continue
        gone = []
        for i, node in enumerate(body):
            if not isinstance(node, ast.Import | ast.ImportFrom) or _kept_on_purpose(node, lines):
                continue
            bound = [alias for alias in node.names if _binds(node, alias, name)]
            if len(bound) == len(node.names):
                gone.append(i)
            elif bound:
                patches += _shorten(node, bound, lines)
        if gone:
            patches += drop_from(holder, body, gone, lines)
    return patches


def _binds(node: ast.Import | ast.ImportFrom, alias: ast.alias, name: str) -> bool:
    if alias.asname is not None:
        return alias.asname == name and alias.asname != alias.name  # `import x as x` means: for others
    if isinstance(node, ast.ImportFrom):
        return alias.name == name and node.module != _FUTURE
    return alias.name == name or ("." not in name and alias.name.partition(".")[0] == name)


def _kept_on_purpose(node: ast.stmt, lines: Lines) -> bool:
    """Whether the statement says that it is not there for this file (`# noqa: F401`)."""
    end = lines.span(node).end
    rest = lines.text[end : lines.end(end)]
    return "noqa" in rest and ("F401" in rest or ":" not in rest.partition("noqa")[2])


def _shorten(node: ast.Import | ast.ImportFrom, bound: Sequence[ast.alias], lines: Lines) -> list[Patch]:
    """Remove some names of an import of several."""
    patches: list[Patch] = []
    names = node.names
    kept = [i for i, alias in enumerate(names) if alias not in bound]
    for i, alias in enumerate(names):
        if alias not in bound:
            continue
        span = lines.span(alias)
        if i < kept[-1]:
            patches.append(_cut_name(span.start, span.end, lines.span(names[i + 1]).start, lines))
        else:
            patches.append(replace(lines.span(names[i - 1]).end, span.end, ""))
    return patches


def _cut_name(start: int, end: int, following: int, lines: Lines) -> Patch:
    """Remove a name that another one follows; a comment on a line of its own stays."""
    between = lines.text[end:following]
    alone = not lines.text[lines.start(start) : start].strip()
    if "#" not in between:
        return replace(start, following, "")
    comma = end + between.index(",") + 1
    if alone:
        row_end = lines.end(comma)
        rest = lines.text[row_end:following]
        return replace(start, row_end + len(rest) - len(rest.lstrip()), "")
    return replace(start, comma, "")
