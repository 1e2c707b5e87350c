"""What a rule is told about the unit that it looks at: the implementation of `rule.Context`."""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from portkit import effort as efforts
from portkit import sites
from portkit.aliases import Aliases
from portkit.cells import Unit
from portkit.finding import DropImport, Edit, Effort, Finding, Location, NeedImport, Phase, Span, Support
from portkit.flow import Flow
from portkit.guards import Guards
from portkit.links import NONE, Links, Lookup
from portkit.names import Names
from portkit.rule import Rule
from portkit.scopes import FUNCTIONS, Tree
from portkit.source import Kind

LINE_END = re.compile(r"\r\n|\r|\n")
_ROWS = 20  # lines of a finding that go into its snippet, at most
_SEVERAL = "The name means one of several things here: which one, a condition decides when the program runs."
_ALIASES = {"portkit.runtime": "pk", "torch.nn.functional": "F", "numpy": "np"}


def _starts(text: str) -> list[int]:
    """The offset of each line."""
    if "\r" in text:
        return [0, *(match.end() for match in LINE_END.finditer(text))]
    return [0, *accumulate(len(line) + 1 for line in text.split("\n")[:-1])]


class Lines:
    """Positions in a text: offsets, and lines and columns counted from 1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = _starts(text)
        self._ascii = text.isascii()

    def offset(self, line: int, column: int) -> int:
        """Character offset of an `ast` position: line from 1, column in UTF-8 bytes from 0."""
        start = self.starts[line - 1]
        if self._ascii:
            return start + column
        text = self.line(line)
        if text.isascii():
            return start + column
        return start + len(text.encode()[:column].decode(errors="ignore"))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of a character offset."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line without its end."""
        end = self.starts[number] if number < len(self.starts) else len(self.text)
        return self.text[self.starts[number - 1] : end].rstrip("\r\n")


class UnitContext:
    """One file, or one cell, with its names; see `rule.Context` for what each method promises."""

    def __init__(
        self, path: str, kind: Kind, unit: Unit, operators: str, tree: Tree | None, links: Links = NONE
    ) -> None:
        self.path = path
        self.kind = kind
        self.text = unit.text
        self.operators = operators
        self.cell = unit.cell
        self.tree = tree
        self.links = links
        self.lines = Lines(unit.text)
        self.used_imports: list[str] = []

    def release(self) -> None:
        """Let go of everything.  The parts of a context point at each other: their memory would wait for a
        search for such circles, which takes longer than most of what is done with a small file."""
        for part in (self.__dict__.get("names"), self.__dict__.get("flow"), self.tree):
            if part is not None:
                part.__dict__.clear()
        self.__dict__.clear()

    # The parts that only some rules need are made when they are asked for.

    @cached_property
    def names(self) -> Names:
        return Names(self._tree, Lookup(self.links) if self.links else None)

    @cached_property
    def flow(self) -> Flow:
        return Flow(self.names)

    @cached_property
    def aliases(self) -> Aliases:
        return Aliases(self.names, self.source)

    @cached_property
    def guards(self) -> Guards:
        return Guards(self.names, self.source)

    @property
    def _tree(self) -> Tree:
        if self.tree is None:
            raise ValueError(f"{self.path} is not Python: it has no syntax tree")
        return self.tree

    def resolve(self, node: ast.AST) -> str | None:
        return self.names.resolve(node)

    def constant(self, node: ast.AST) -> object | None:
        return self.names.constant(node)

    def local_name(self, qualified: str) -> str | None:
        return self.names.local_name(qualified)

    def nodes(self) -> Iterator[ast.AST]:
        return self._tree.nodes()

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._tree.parents.get(node)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        return self._tree.ancestors(node)

    def guard(self, node: ast.AST) -> str | None:
        found = self.guards.of(node)
        return found.text if found is not None else None

    def scope(self, node: ast.AST) -> str:
        owners = [item for item in self._tree.ancestors(node) if isinstance(item, (*FUNCTIONS, ast.ClassDef))]
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            owners.insert(0, node)
        return ".".join(item.name for item in reversed(owners))

    def is_device_sink(self, node: ast.AST) -> bool:
        return self.flow.is_device_sink(node)

    def is_device_setting(self, key: str) -> bool:
        return any(key.lower() == name.lower() for name in self.links.settings)

    def has_own_cuda(self, name: str) -> bool:
        return name in self.links.own_cuda

    @property
    def held(self) -> str:
        return self.links.held

    def is_assigned_elsewhere(self, node: ast.AST) -> bool:
        self.names.resolve(node)
        meaning = self.names.elsewhere.get(node)
        return meaning is not None and meaning.assigned

    def is_shadowed(self, name: str, node: ast.AST) -> bool:
        return self.names.is_shadowed(name, node)

    def span(self, node: ast.AST) -> Span:
        line, column = getattr(node, "lineno", None), getattr(node, "col_offset", None)
        end_line, end_column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        if line is None or column is None or end_line is None or end_column is None:
            raise ValueError(f"{type(node).__name__} has no position")
        return Span(self.lines.offset(line, column), self.lines.offset(end_line, end_column))

    def source(self, node: ast.AST) -> str:
        if self._tree.is_earlier(node):
            return ast.unparse(node)  # of another cell, whose text is not here
        span = self.span(node)
        return self.text[span.start : span.end]

    def use(self, module: str) -> tuple[str, tuple[NeedImport, ...]]:
        spelled = self.local_name(module)
        if spelled is not None:
            return spelled, ()
        if module.startswith("torch.") and (torch := self.local_name("torch")) is not None:
            return torch + module.removeprefix("torch"), ()
        last = module.rpartition(".")[2]
        alias = self._free_alias(_ALIASES.get(module, last), module)
        plain = alias == module
        return alias, (NeedImport(module, None, None if plain else alias),)

    def _free_alias(self, wanted: str, module: str) -> str:
        """A name for `module` that no scope of the unit uses for something else."""
        for name in (wanted, module.replace(".", "_"), f"_{wanted}", f"_{module.replace('.', '_')}"):
            if not self._taken(name, module):
                return name
        number = 2
        while self._taken(f"{wanted}{number}", module):
            number += 1
        return f"{wanted}{number}"

    def _taken(self, name: str, module: str) -> bool:
        if name in self._tree.loads and not self.names.is_bound_anywhere(name):
            return True  # comes from a star import, or is a builtin
        return any(
            item.target != module
            for scope in self._tree.every_scope()
            for item in scope.bindings.get(name, ())
        )

    # --- findings ----------------------------------------------------------------------------------

    def finding(
        self,
        rule: Rule,
        node: ast.AST | Span,
        message: str,
        *,
        support: Support,
        remedy: str,
        edits: Sequence[Edit] = (),
        phase: Phase | None = None,
        qualified_name: str | None = None,
        note: str = "",
        lossy: bool = False,
        effort: Effort | None = None,
        group: str = "",
    ) -> Finding:
        known: dict[str, Any] = {}
        if isinstance(node, ast.AST):
            if self._not_editable(node) and edits:
                edits, support = (), Support.MANUAL
            callee = self._callee(node)
            lossy = lossy or self.names.through_star(callee)
            if self.names.has_several_meanings(callee):
                lossy, edits, note = True, (), _SEVERAL
                support = support if support in (Support.MANUAL, Support.PORTABLE) else Support.UNKNOWN
            qualified_name = qualified_name or self._absolute(callee)
            known = self._known_of(node, callee)
            span = self.span(self._placed(node))
        else:
            span = node
        if isinstance(node, ast.AST) and any(isinstance(edit, DropImport) for edit in edits):
            edits = [edit for edit in edits if not self._drops_own(edit)]
        line, column = self.lines.position(span.start)
        end_line, end_column = self.lines.position(span.end)
        last = min(sites.last_line(node, end_line) if isinstance(node, ast.AST) else line, line + _ROWS)
        own = self.text[span.start : span.end].partition("\n")[0]
        return Finding(
            rule=rule.id,
            phase=phase or rule.phase,
            support=support,
            location=Location(self.path, line, column, end_line, end_column, self.cell),
            message=message,
            remedy=remedy,
            qualified_name=qualified_name,
            snippet=sites.snippet(self.lines.line(number) for number in range(line, last + 1)),
            note=note,
            edits=tuple(edits),
            lossy=lossy,
            effort=effort or efforts.of(rule, support),
            group=group,
            key=group or sites.key(self.lines.line(line), own),
            **known,
        )

    def _drops_own(self, edit: Edit) -> bool:
        """Whether an edit removes an import of the program's own module, which may do more than bind names,
        or one on which another module relies."""
        return isinstance(edit, DropImport) and self.names.is_of_program(edit.local)

    def _known_of(self, node: ast.AST, callee: ast.AST) -> dict[str, Any]:
        """The fields of a finding that follow from its place in the syntax tree."""
        guard = self.guards.of(node)
        return {
            "scope": self.scope(node),
            "guard": guard.text if guard is not None else None,
            "guard_kind": guard.kind if guard is not None else None,
            "guard_line": guard.line if guard is not None else None,
            "aliases": self.aliases.of(callee),
            "import_time": self.kind is Kind.PYTHON and sites.runs_at_import(node, self._tree),
        }

    def _callee(self, node: ast.AST) -> ast.AST:
        """The name that a finding is about: the callee of a call, or of the call around an argument."""
        outer = self.parent(node) if isinstance(node, ast.keyword) else node
        return outer.func if isinstance(outer, ast.Call) else node

    def _absolute(self, callee: ast.AST) -> str | None:
        """What a callee means, if that is not a module of the user's own."""
        name = self.names.resolve(callee)
        return name if name is not None and not name.startswith(".") else None

    def _not_editable(self, node: ast.AST) -> bool:
        """Places whose source cannot be replaced by another expression."""
        if isinstance(node, ast.Call) and self.names.through_partial(node.func):
            return True  # some arguments are bound elsewhere
        if any(isinstance(item, ast.pattern) for item in (node, *self.parents(node))):
            return True  # a name in a pattern would capture
        return self._placed(node) is not node

    def _placed(self, node: ast.AST) -> ast.AST:
        """`node`, or the f-string around it where this Python gets positions inside f-strings wrong."""
        if sys.version_info >= (3, 12):
            return node
        for outer in self.parents(node):
            if isinstance(outer, ast.JoinedStr):
                return node if self._position_holds(node) else self._placed(outer)
        return node

    def _position_holds(self, node: ast.AST) -> bool:
        try:
            text = self.source(node)
            return ast.dump(ast.parse(text.strip(), mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError, IndexError):
            return False
