"""What a rule is: a small class that looks at nodes with resolved names, or at the text of other files.

A rule lives in a file of its own under `analyzers/` (reports only) or `rewriters/` (reports and replaces),
is named after the bad pattern, and is found by walking those folders.  Its docstring is its documentation:
a summary line, then the headings `What:`, `Why:`, `Instead:` and `Safety:`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from portkit.finding import Edit, Effort, Finding, NeedImport, Phase, Span, Support
from portkit.source import Kind


class Context(Protocol):
    """What a rule may ask about the file (or notebook cell) that it looks at.  `engine.py` implements it."""

    path: str
    kind: Kind
    text: str  # decoded text of the file or cell
    operators: str  # "cuda-bound" | "compute" | "all": how far the operator phase goes

    def resolve(self, node: ast.AST) -> str | None:
        """Qualified name that an expression means here ("torch.cuda.amp.autocast"), or None.

        Sees through aliases, `from` and star imports of known packages, guarded imports, `getattr` with a
        constant, `functools.partial`, and names assigned once to a resolvable value.
        """

    def constant(self, node: ast.AST) -> object | None:
        """The value of a constant expression, following names that are assigned once; None if not known."""

    def local_name(self, qualified: str) -> str | None:
        """How this file already spells a qualified name (`th.cuda`), or None if it does not import it."""

    def nodes(self) -> Iterator[ast.AST]:
        """All nodes of the file or cell, outer ones before those inside, without operators."""

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds `node`."""

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""

    def guard(self, node: ast.AST) -> str | None:
        """Source of the innermost condition on CUDA or on an optional import that `node` stands under."""

    def scope(self, node: ast.AST) -> str:
        """Dotted name of the function or class around `node`; empty at module level."""

    def span(self, node: ast.AST) -> Span:
        """Character span of a node that has a position."""

    def source(self, node: ast.AST) -> str:
        """Exact source text of a node."""

    def is_device_sink(self, node: ast.AST) -> bool:
        """Whether the value of this expression flows into a device: `device=`, `.to()`, `torch.device()`,
        `map_location=`, a comparison with a device, or a name that does one of these."""

    def is_device_setting(self, key: str) -> bool:
        """Whether a file of the program uses the setting `key` (in any case) as a device: `cfg.key`."""

    @property
    def held(self) -> str:
        """Why other files keep back what `Rule.moving` says of this one; empty if they do not."""

    def has_own_cuda(self, name: str) -> bool:
        """Whether `name` is a class of another module of the program that defines `cuda` and no `to`."""

    def is_assigned_elsewhere(self, node: ast.AST) -> bool:
        """Whether another module of the program assigned the name that `node` means: reported there."""

    def is_shadowed(self, name: str, node: ast.AST) -> bool:
        """Whether `name` is bound to something of the user's own where `node` stands."""

    def use(self, module: str) -> tuple[str, tuple[NeedImport, ...]]:
        """Local name under which the edited code can call `module` ("portkit.runtime", "torch"), and the
        import edits that it needs (none if the file imports it already).  Never shadows a user's name."""

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
        """Make a finding at a node (or at a span of text), with its scope, guard, alias chain and snippet
        filled in.  `effort` is for rules that know it of this site; else it is that of the rule.
        Findings of one file with the same `group` and support are told as one, with their number."""


Visit = Callable[[ast.AST, Context], Iterable[Finding]]
Method = TypeVar("Method", bound=Callable[..., object])


def named(method: Method) -> Method:
    """Mark a `visit_` method that has nothing to say of a node that `ctx.resolve` has no name for.

    The engine then shows it only the others: most names and attributes of a program are its own variables.
    """
    method.only_named = True  # type: ignore[attr-defined]
    return method


def called(method: Method) -> Method:
    """Mark a `visit_Call` that has nothing to say of a call whose callee `ctx.resolve` has no name for."""
    method.only_called = True  # type: ignore[attr-defined]
    return method


class Rule:
    """Base of all rules.  Override `visit_<NodeType>` methods, `visit_text`, or both.

    A method `visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]` is called once for every
    such node of a Python file or notebook cell, in source order.  `visit_text(self, ctx)` is called once for
    each file whose kind is in `text_kinds`.
    """

    id: ClassVar[str]  # "PK101": the hundreds digit groups by area, never reused
    name: ClassVar[str]  # the bad pattern, equal to the module's name
    phase: ClassVar[Phase]
    triggers: ClassVar[tuple[bytes, ...]]  # lower-case; a file whose lower-cased bytes hold none is skipped
    code_triggers: ClassVar[tuple[bytes, ...]] = ()  # for Python and notebooks, where `triggers` are too many
    imports: ClassVar[frozenset[bytes]] = frozenset()  # lower-case words that trigger where they are imported
    of_others: ClassVar[bool] = (
        False  # its findings, named by a module, fall where the project has that module
    )
    opens_branch: ClassVar[bool] = False  # its rewrite of a test lets other devices into the branch behind
    stops_import: ClassVar[bool] = (
        False  # what it refuses at import time keeps the module from being imported
    )
    text_kinds: ClassVar[frozenset[Kind]] = frozenset()
    minutes: ClassVar[int | None] = None  # that a manual finding takes a person, where that is not as usual

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        """Look at a file that is not Python."""
        return ()

    def moving(self, module: ast.AST, ctx: Context) -> tuple[str, Sequence[ast.AST]] | None:
        """What of a file can only move together with what it calls in other files: why it can't be moved
        (empty if it can), and the nodes that call.  The links of the file then say if others keep it back."""
        return None

    def about(self, name: str) -> bool:
        """Whether the methods marked with `named` or `called` may have something to say of a qualified name.

        Asked once for each name, so that most names are shown to no rule at all.
        """
        return True

    @classmethod
    def configured(cls, apis: tuple[Path, ...]) -> type[Rule]:
        """The rule for a project that has tables of APIs of its own; almost all rules are the same there."""
        return cls

    @classmethod
    def facts(cls) -> str:
        """What a project adds to the rule, as text; empty for almost all."""
        return ""

    @classmethod
    def visits(cls) -> dict[str, str]:
        """Node type → method name, for every `visit_<NodeType>` that the class defines."""
        return {
            name.removeprefix("visit_"): name
            for name in dir(cls)
            if name.startswith("visit_") and name != "visit_text"
        }
