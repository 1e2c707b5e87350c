"""Where the front end stands: the function being read, its names, and the source for messages."""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from portkit.errors import KernelError, caret
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Semantics
from portkit.runtime.tile.language._base import unwrap
from portkit.runtime.tile.source_text import source_lines

MAX_DEPTH = 32


@dataclass(frozen=True)
class Source:
    """The text of one function, and where it stands in its file."""

    file: str
    first_line: int
    indent: int
    lines: tuple[str, ...]  # as in the file
    tree: ast.FunctionDef

    def loc(self, node: ast.AST) -> ir.Loc:
        """The position of a node in the file, counted from 1."""
        line = self.first_line + getattr(node, "lineno", 1) - 1
        return ir.Loc(self.file, line, getattr(node, "col_offset", 0) + self.indent + 1)

    def locate(self, error: KernelError, node: ast.AST) -> None:
        """Give an error its place and the source line with carets, unless it has them."""
        if error.place:
            return
        error.place = str(self.loc(node))
        row = getattr(node, "lineno", 1) - 1
        if row >= len(self.lines):
            return
        start = getattr(node, "col_offset", 0) + self.indent + 1
        one_line = getattr(node, "end_lineno", None) == getattr(node, "lineno", None)
        end = getattr(node, "end_col_offset", 0) + self.indent + 1 if one_line else len(self.lines[row]) + 1
        error.source = caret(self.lines[row], start, end)


def read_source(function: FunctionType) -> Source:
    """The source of a Python function; raises KernelError when Python can't give it."""
    rows, first = source_lines(function)
    file = inspect.getsourcefile(function) or function.__code__.co_filename
    raw = [row.rstrip("\r\n") for row in rows]
    indent = len(raw[0]) - len(raw[0].lstrip())
    try:
        tree = ast.parse(textwrap.dedent("\n".join(raw)))
    except SyntaxError as error:
        raise KernelError(
            f"the source of kernel `{function.__name__}` can't be parsed: {error.msg}",
            place=f"{file}:{first}",
            remedy="Write the kernel as a plain `def` of its own.",
        ) from error
    defined = tree.body[0] if tree.body else None
    if not isinstance(defined, ast.FunctionDef):
        raise KernelError(
            f"kernel `{function.__name__}` is not a `def`",
            place=f"{file}:{first}",
            remedy="Write the kernel as a plain `def`; a lambda or an async function can't be compiled.",
        )
    return Source(file, first, indent, tuple(raw), defined)


@dataclass(frozen=True)
class Undefined:
    """What a name stands for where it has no single value; reading it is an error with this message."""

    message: str
    remedy: str


@dataclass
class Frame:
    """One function being read (the kernel, or a @jit function inlined into it)."""

    function: FunctionType
    source: Source
    names: dict[str, Any] = field(default_factory=dict)
    depth: int = 0
    inside_loop: int = 0

    @property
    def globals(self) -> Mapping[str, Any]:
        return self.function.__globals__

    def closure(self, name: str) -> tuple[bool, Any]:
        """Whether an enclosing Python function supplies the name, and its value."""
        names = self.function.__code__.co_freevars
        if name not in names or self.function.__closure__ is None:
            return False, None
        return True, self.function.__closure__[names.index(name)].cell_contents


class Context:
    """What every part of the front end is handed: the frame, and what emits operations."""

    def __init__(self, sem: Semantics, frame: Frame, inline: Callable[..., Any]) -> None:
        self.sem = sem
        self.frame = frame
        self.inline = inline  # inline(ctx, function, args, kwargs) -> value, for nested @jit functions

    @property
    def builder(self) -> ir.Builder:
        return self.sem.builder

    def lookup(self, name: str) -> Any:
        """The value of a name: local, enclosing, global or built in; KernelError names the nearest match."""
        frame = self.frame
        if name in frame.names:
            value = frame.names[name]
            if isinstance(value, Undefined):
                raise KernelError(value.message, remedy=value.remedy)
            return value
        found, value = frame.closure(name)
        if found:
            return unwrap(value)
        if name in frame.globals:
            return unwrap(frame.globals[name])
        if hasattr(builtins, name):
            return getattr(builtins, name)
        known = [*frame.names, *frame.globals]
        raise KernelError(f"name `{name}` is not defined", remedy=nearest(name, known))

    def in_block(self, block: ir.Block, names: dict[str, Any], body: Callable[[], Any]) -> Any:
        """Run `body` so that it emits into `block` and sees `names`; both are put back afterwards."""
        builder, frame = self.builder, self.frame
        saved_block, saved_names = builder.block, frame.names
        builder.block, frame.names = block, names
        try:
            return body()
        finally:
            builder.block, frame.names = saved_block, saved_names


def nearest(name: str, known: list[str]) -> str:
    """A remedy that names the closest of the known names."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean `{close[0]}`?" if close else ""
