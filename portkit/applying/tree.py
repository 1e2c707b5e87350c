"""A Python text as the applier sees it: lines, `ast`, and the concrete syntax of single expressions.

`ast` tells which outermost expression holds a span.  Only that expression is parsed with LibCST, so that
everything else in the file, however odd, can't be touched, and a large file costs no more than a small one.
"""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import libcst as cst
from libcst._nodes.internal import CodegenState

from portkit.applying.quiet import quietly
from portkit.errors import ApplyError
from portkit.finding import Span
from portkit.scopes import walk

_DEEPEST = 300
_LINE = re.compile(r"\r\n|\r|\n")


class Lines:
    """Offsets of lines: `ast` counts lines from 1 and columns in UTF-8 bytes, we count characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0, *(match.end() for match in _LINE.finditer(text))]

    def offset(self, line: int, column: int) -> int:
        """Character offset of an `ast` position."""
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        row = self.text[start:end]
        return start + (column if row.isascii() else len(row.encode()[:column].decode(errors="ignore")))

    def span(self, node: ast.AST) -> Span:
        """Character span of a node that has a position (decorators are not part of it)."""
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        end_line, end_column = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return Span(self.offset(line, column), self.offset(end_line, end_column))

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, as `ast` counts them."""
        number = self.number(offset)
        row = self.text[self.starts[number - 1] : offset]
        return number, len(row) if row.isascii() else len(row.encode(errors="surrogatepass"))

    def number(self, offset: int) -> int:
        """Number of the line that holds an offset, from 1."""
        return bisect.bisect_right(self.starts, offset)

    def start(self, offset: int) -> int:
        """Where the line that holds `offset` starts."""
        return self.starts[self.number(offset) - 1]

    def end(self, offset: int) -> int:
        """Where the line that holds `offset` ends, its newline included."""
        number = self.number(offset)
        return self.starts[number] if number < len(self.starts) else len(self.text)

    def newline(self) -> str:
        """The newline that the text uses (the first one), or a line feed."""
        match = _LINE.search(self.text)
        return match.group() if match else "\n"


def parentheses(text: str, span: Span) -> Span | None:
    """The span with the parentheses directly around it; None if there are none (comments are not skipped)."""
    start = span.start - 1
    while start >= 0 and text[start].isspace():
        start -= 1
    end = span.end
    while end < len(text) and text[end].isspace():
        end += 1
    closed = start >= 0 and text[start] == "(" and text.startswith(")", end)
    return Span(start, end + 1) if closed else None


class _Recorder(CodegenState):
    """Writes out a LibCST tree, and notes where each node starts and ends and what holds it."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.length = 0
        self.full: dict[cst.CSTNode, Span] = {}  # own parentheses included
        self.inner: dict[cst.CSTNode, Span] = {}  # without them
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._open: list[tuple[cst.CSTNode, int]] = []

    def add_token(self, value: str) -> None:
        self.length += len(value)
        self.tokens.append(value)

    def add_indent_tokens(self) -> None:
        for value in self.indent_tokens:
            self.add_token(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if self._open:
            self.parents[node] = self._open[-1][0]
        self._open.append((node, self.length))

    def after_codegen(self, node: cst.CSTNode) -> None:
        self.full[node] = Span(self._open.pop()[1], self.length)

    @contextmanager
    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Iterator[None]:
        start = self.length
        yield
        self.inner[node] = Span(start, self.length)


class Expression:
    """One outermost expression of the file, parsed with LibCST; all spans are those of the whole text."""

    def __init__(self, text: str, span: Span) -> None:
        source = f"({text[span.start : span.end]})"
        try:
            module = cst.parse_module(source)
        except cst.ParserSyntaxError as error:
            raise ApplyError(f"LibCST can't parse this expression ({error.message})") from None
        state = _Recorder(module)
        for statement in module.body:
            statement._codegen(state)
        if "".join(state.tokens).rstrip("\r\n") != source:
            raise ApplyError("LibCST can't reproduce this expression exactly")
        self._shift = span.start - 1
        self._state = state
        self._root = next(iter(cst.ensure_type(module.body[0], cst.SimpleStatementLine).body)).children[0]
        self._in_parentheses = parentheses(text, span) is not None
        self._by_span: dict[Span, cst.BaseExpression] = {}
        for node in state.inner:
            if isinstance(node, cst.BaseExpression):
                self._by_span.setdefault(self._shifted(self._ast_span(node)), node)

    def _shifted(self, span: Span) -> Span:
        return Span(span.start + self._shift, span.end + self._shift)

    def _ast_span(self, node: cst.BaseExpression) -> Span:
        """`ast` counts the parentheses of a tuple and of a generator expression as theirs."""
        if isinstance(node, cst.Tuple | cst.GeneratorExp) and len(node.lpar) > (node is self._root):
            full = self._state.full
            return Span(full[node.lpar[-1]].start, full[node.rpar[0]].end)
        return self._state.inner[node]

    def span(self, node: cst.BaseExpression) -> Span:
        """Span of an expression as `ast` counts it."""
        return self._shifted(self._ast_span(node))

    def is_enclosed(self, node: cst.CSTNode) -> bool:
        """Whether parentheses stand around an expression, beyond those that are part of it."""
        own = isinstance(node, cst.Tuple | cst.GeneratorExp)
        if node is self._root:  # the first pair is our own; the file's are outside the text that we parsed
            return self._in_parentheses
        return len(getattr(node, "lpar", ())) > own

    def is_bare(self, node: cst.CSTNode) -> bool:
        """Whether no parentheses stand around an expression, nor are part of it."""
        return len(getattr(node, "lpar", ())) == (node is self._root)

    def node(self, span: Span) -> cst.BaseExpression:
        """The expression at a span of `ast`.  Raises ApplyError if there is none."""
        found = self._by_span.get(span)
        if found is None:
            raise ApplyError("no expression stands at this place")
        return found

    def call(self, span: Span) -> cst.Call:
        """The call at a span of `ast`.  Raises ApplyError if there is none."""
        found = self.node(span)
        if not isinstance(found, cst.Call):
            raise ApplyError("no call stands at this place")
        return found

    def inner(self, node: cst.CSTNode) -> Span:
        """Span of a node without the parentheses around it."""
        return self._shifted(self._state.inner.get(node) or self._state.full[node])

    def full(self, node: cst.CSTNode) -> Span:
        """Span of a node with the parentheses around it (and, for punctuation, the whitespace)."""
        return self._shifted(self._state.full[node])

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that holds `node`."""
        return self._state.parents.get(node)

    def quotes(self, node: cst.CSTNode) -> list[str]:
        """The quotes of every f-string that `node` stands in, innermost first."""
        found: list[str] = []
        parent = self.parent(node)
        while parent is not None:
            if isinstance(parent, cst.FormattedString):
                found.append(parent.end)
            parent = self.parent(parent)
        return found


class Tree:
    """A Python text, parsed.  Raises SyntaxError if it can't be."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        with quietly():
            self.module = ast.parse(text)
        self._nodes = list(roots(self.module))
        self._roots = sorted((self.lines.span(node), index) for index, node in enumerate(self._nodes))
        self._parsed: dict[Span, Expression] = {}

    def expression(self, span: Span) -> Expression:
        """The outermost expression around a span.  Raises ApplyError if the span is not in an expression."""
        at = bisect.bisect_right(self._roots, (Span(span.start, len(self.text) + 1), 0)) - 1
        root, index = self._roots[at] if at >= 0 else (Span(0, 0), 0)
        if at < 0 or not root.start <= span.start <= span.end <= root.end:
            raise ApplyError("no expression stands at this place")
        if root not in self._parsed:
            if _depth(self._nodes[index]) > _DEEPEST:  # LibCST would end the process: its stack is native
                raise ApplyError("the code is nested too deeply")
            self._parsed[root] = Expression(self.text, root)
        return self._parsed[root]

    @cached_property
    def _callees(self) -> dict[Span, Span]:
        calls = [node for node in walk(self.module) if isinstance(node, ast.Call)]
        return {self.lines.span(node.func): self.lines.span(node) for node in calls}

    def callee(self, span: Span) -> Span | None:
        """The span of the call whose function stands at `span`."""
        return self._callees.get(span)

    def in_expression(self, span: Span) -> bool:
        """Whether a span lies in an expression."""
        at = bisect.bisect_right(self._roots, (Span(span.start, len(self.text) + 1), 0)) - 1
        return at >= 0 and self._roots[at][0].start <= span.start <= span.end <= self._roots[at][0].end


def _depth(node: ast.expr) -> int:
    """How many levels an expression has, in LibCST's tree, where `a and b and c` has two."""
    deepest = 0
    stack: list[tuple[ast.AST, int]] = [(node, 1)]
    while stack:
        current, level = stack.pop()
        deepest = max(deepest, level)
        more = len(current.values) - 1 if isinstance(current, ast.BoolOp) else 1
        stack.extend((child, level + more) for child in ast.iter_child_nodes(current))
    return deepest


def roots(module: ast.AST) -> Iterator[ast.expr]:
    """The outermost expressions below a node, in no particular order."""
    stack: list[ast.AST] = [module]
    while stack:
        for child in ast.iter_child_nodes(stack.pop()):
            if isinstance(child, ast.Starred):
                yield child.value
            elif isinstance(child, ast.expr):
                yield child
            else:
                stack.append(child)
