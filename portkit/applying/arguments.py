"""Edits of a call's argument list: set, insert, name, rename and drop arguments, commas and comments kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from portkit.applying.expressions import fitted, requoted
from portkit.applying.patch import Patch, closing, opening, replace
from portkit.applying.tree import Expression, Tree
from portkit.errors import ApplyError
from portkit.finding import DropArgument, InsertArgument, NameArgument, RenameKeyword, SetArgument, Span

ArgumentEdit = SetArgument | InsertArgument | NameArgument | RenameKeyword | DropArgument

_FIRST_ROW = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?")  # what follows on the same line
_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass
class _Changes:
    """What one finding wants of one argument list; keys are indices into the list of all arguments."""

    named: dict[int, str] = field(default_factory=dict)
    renamed: dict[int, str] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    inserted: dict[int, list[str]] = field(default_factory=dict)
    appended: list[str] = field(default_factory=list)


def edit_arguments(tree: Tree, span: Span, edits: Sequence[ArgumentEdit]) -> list[Patch]:
    """Patches for all edits that one finding makes to the argument list of one call.

    Positions and keywords in the edits are those of the call before any of them.
    """
    expression = tree.expression(span)
    listing = _Listing(tree, expression, expression.call(span))
    changes = _Changes()
    for edit in sorted(edits, key=lambda edit: not isinstance(edit, NameArgument)):
        listing.collect(edit, changes)
    return listing.patches(changes)


class _Listing:
    """The argument list of one call, with the place of every argument and comma."""

    def __init__(self, tree: Tree, expression: Expression, call: cst.Call) -> None:
        self.text = tree.text
        self.newline = tree.lines.newline()
        self.expression = expression
        self.call = call
        self.args = list(call.args)
        self.spans = [expression.inner(arg) for arg in self.args]
        self.open = expression.full(call.whitespace_before_args).start  # just after "("
        self.close = expression.inner(call).end - 1  # at ")"
        # For each argument: just after its comma, or where the argument ends if it has none.
        self.ends = [self._comma_end(arg, span) for arg, span in zip(self.args, self.spans, strict=True)]

    def _comma_end(self, arg: cst.Arg, span: Span) -> int:
        if isinstance(arg.comma, cst.Comma):
            return self.expression.full(arg.comma.whitespace_after).start
        return span.end

    # --- what the edits mean -----------------------------------------------------------------

    def positional(self, index: int) -> int:
        """Place, among all arguments, of the positional argument `index`."""
        found = [i for i, arg in enumerate(self.args) if arg.keyword is None and arg.star != "**"]
        if not 0 <= index < len(found):
            raise ApplyError(f"the call has no positional argument {index}")
        return found[index]

    def keyword(self, name: str) -> int | None:
        """Place, among all arguments, of the keyword argument `name`."""
        for i, arg in enumerate(self.args):
            if arg.keyword is not None and arg.keyword.value == name:
                return i
        return None

    def collect(self, edit: ArgumentEdit, changes: _Changes) -> None:
        """Note what one edit wants."""
        if isinstance(edit, NameArgument):
            at = self.positional(edit.index)
            if self.args[at].star:
                raise ApplyError("a starred argument can't be given a name")
            changes.named[at] = edit.keyword
        elif isinstance(edit, RenameKeyword):
            changes.renamed[self._existing(edit.old)] = edit.new
        elif isinstance(edit, DropArgument):
            at = self.positional(edit.index) if edit.index is not None else self._existing(edit.keyword or "")
            changes.dropped.add(at)
        elif isinstance(edit, InsertArgument):
            changes.inserted.setdefault(self._insertion(edit.index), []).append(self._value(edit.text, ""))
        else:
            self._collect_set(edit, changes)

    def _collect_set(self, edit: SetArgument, changes: _Changes) -> None:
        at = self.keyword(edit.keyword)
        given = next((i for i, name in changes.named.items() if name == edit.keyword), at)
        if given is None:
            changes.appended.append(f"{edit.keyword}={self._value(edit.text, edit.keyword)}")
        else:
            changes.values[given] = edit.text

    def _existing(self, name: str) -> int:
        at = self.keyword(name)
        if at is None:
            raise ApplyError(f"the call has no argument {name!r}")
        return at

    def _insertion(self, index: int) -> int:
        """Place before which a new positional argument `index` goes."""
        found = [i for i, arg in enumerate(self.args) if arg.keyword is None and arg.star != "**"]
        if 0 <= index < len(found):
            return found[index]
        if index != len(found):
            raise ApplyError(f"the call has no positional argument {index}")
        return found[-1] + 1 if found else 0

    def _value(self, text: str, keyword: str) -> str:
        """The text of a new argument.  Raises ApplyError if it is not one."""
        prefix = f"{keyword}=" if keyword else ""
        for candidate in (text, f"({text})"):
            try:
                call = ast.parse(f"f({prefix}{candidate}\n)", mode="eval").body
            except SyntaxError:
                continue
            loose = isinstance(call, ast.Call) and any(isinstance(a, ast.GeneratorExp) for a in call.args)
            if isinstance(call, ast.Call) and len(call.args) + len(call.keywords) == 1 and not loose:
                return requoted(candidate, self.expression.quotes(self.call))
        raise ApplyError(f"{text!r} is not an argument")

    # --- patches -----------------------------------------------------------------------------

    def patches(self, changes: _Changes) -> list[Patch]:
        """All patches of the argument list."""
        kept = [i for i in range(len(self.args)) if i not in changes.dropped]
        tail = kept[-1] + 1 if kept else 0  # from here on every argument is dropped
        adds = [text for at in sorted(changes.inserted) if at >= tail for text in changes.inserted[at]]
        adds += changes.appended
        patches = [patch for i in kept for patch in self._change(i, changes)]
        for at in sorted(changes.inserted):
            if at < tail:
                patches += [self._insert(at, text, rank) for rank, text in enumerate(changes.inserted[at])]
        patches += [self._drop(i) for i in sorted(changes.dropped) if i < tail]
        if tail < len(self.args):
            patches.append(self._replace_tail(tail, adds) if adds else self._drop_tail(tail))
        elif adds:
            patches += self._append(adds)
        return patches

    def _change(self, i: int, changes: _Changes) -> list[Patch]:
        arg, patches = self.args[i], []
        if i in changes.named:
            patches.append(opening(self.spans[i].start, f"{changes.named[i]}=", len(self.text)))
            if isinstance(arg.value, cst.GeneratorExp | cst.NamedExpr) and not arg.value.lpar:
                patches += self._parentheses(i)
        if i in changes.renamed and arg.keyword is not None:
            name = self.expression.inner(arg.keyword)
            patches.append(replace(name.start, name.end, changes.renamed[i]))
        if i in changes.values:
            span = self.expression.span(arg.value)
            text = fitted(self.expression, arg.value, changes.values[i])
            patches.append(replace(span.start, span.end, text))
        return patches

    def _parentheses(self, i: int) -> list[Patch]:
        """Parentheses around an argument's value."""
        span = self.expression.full(self.args[i].value)
        size = span.end - span.start
        return [opening(span.start, "(", size), closing(span.end, ")", size)]

    def _before(self, i: int) -> str:
        """What stands between an argument and the one before it, comma excluded."""
        start = self.ends[i - 1] if i else self.open
        return self.text[start : self.spans[i].start]

    def _after(self, i: int) -> str:
        """What stands between an argument, its comma included, and the next one."""
        end = self.spans[i + 1].start if i + 1 < len(self.args) else self.close
        return self.text[self.ends[i] : end]

    def _own_line(self, i: int) -> bool:
        """Whether an argument is the only one on its line or lines."""
        return bool(_NEWLINE.search(self._before(i)) and _NEWLINE.search(self._after(i)))

    def _indent(self, i: int) -> str:
        """The newline and indentation that an argument on a line of its own has before it."""
        return self.newline + _NEWLINE.split(self._before(i))[-1]

    def _insert(self, i: int, text: str, rank: int) -> Patch:
        """Insert an argument before an existing one."""
        own = bool(_NEWLINE.search(self._before(i)))
        gap = self._indent(i) if own else " "
        return Patch(self.spans[i].start, 1, -2 * len(self.text) + rank, self.spans[i].start, f"{text},{gap}")

    def _drop(self, i: int) -> Patch:
        """Remove an argument that another one follows."""
        start, after = self.spans[i].start, self._after(i)
        own = self._own_line(i)
        if not _NEWLINE.search(after) or (not own and "#" not in after):
            return replace(start, self.spans[i + 1].start, "")
        if not own:  # the comment at the end of the line is about its other arguments too
            return replace(self.ends[i - 1] if i else self.open, self.ends[i], "")
        newline = _NEWLINE.search(after)
        assert newline is not None
        rest = after[newline.end() :]
        blank = len(rest) - len(rest.lstrip())
        return replace(start, self.ends[i] + newline.end() + blank, "")

    def _drop_tail(self, first: int) -> Patch:
        """Remove all arguments from `first` on."""
        last = len(self.args) - 1
        own = all(self._own_line(i) for i in range(first, last + 1))
        row = _FIRST_ROW.match(self._after(last)) if own else None
        end = self.ends[last] + (row.end() if row else 0)
        if not first and "#" not in self.text[self.open : self.spans[0].start] + self.text[end : self.close]:
            return replace(self.open, self.close, "")
        if own:
            newline = _NEWLINE.match(self.text, end)
            margin = len(_NEWLINE.split(self._before(first))[-1])
            return replace(self.spans[first].start - margin, newline.end() if newline else end, "")
        if not first:
            return replace(self.spans[0].start, self.ends[last], "")
        trailing = isinstance(self.args[last].comma, cst.Comma)
        if trailing:
            return replace(self.ends[first - 1], self.ends[last], "")
        return replace(self.spans[first - 1].end, self.spans[last].end, "")

    def _replace_tail(self, first: int, adds: Sequence[str]) -> Patch:
        """Put new arguments in the place of all arguments from `first` on."""
        gap = f",{self._indent(first)}" if self._own_line(first) else ", "
        return replace(self.spans[first].start, self.spans[-1].end, gap.join(adds))

    def _append(self, adds: Sequence[str]) -> list[Patch]:
        """Add arguments at the end."""
        if not self.args:
            return [opening(self.open, ", ".join(adds), len(self.text))]
        last = len(self.args) - 1
        comma = isinstance(self.args[last].comma, cst.Comma)
        end = self.ends[last]
        patches: list[Patch] = []
        if isinstance(self.args[last].value, cst.GeneratorExp) and not self.args[last].value.lpar:
            patches = self._parentheses(last)
        size = 2 * len(self.text)
        if not self._own_line(last):
            joined = ", ".join(adds)
            return [*patches, closing(end, f" {joined}," if comma else f", {joined}", size)]
        gap = self._indent(last)
        row = _FIRST_ROW.match(self._after(last))
        at = end + (row.end() if row else 0)
        joined = f",{gap}".join(adds)
        if comma:
            return [*patches, closing(at, f"{gap}{joined},", size)]
        if at == end:
            return [*patches, closing(at, f",{gap}{joined}", size)]
        return [*patches, closing(end, ",", size), closing(at, f"{gap}{joined}", size)]
