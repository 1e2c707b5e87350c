"""Rules that replace calls as the data of a folder says."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from portkit.finding import Finding, Support
from portkit.rewriters import _operators, _references, _sites
from portkit.rule import Context, Rule, called, named

_KEPT = "The call no longer goes through the attribute: whoever gives it another function has no effect."


class ReplacingRule(Rule):
    """A rule whose facts are the TOML files of one folder of the runtime."""

    folder: ClassVar[Path]
    namespace: ClassVar[str]  # "pk.ops"
    is_class: ClassVar[bool] = False  # what is replaced are classes, which type tests and annotations name

    def about(self, name: str) -> bool:
        return name in _operators.replacements(self.folder)

    @called
    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        found = self._known(node.func, ctx)
        if found is None or _references.is_partial(node.func, ctx):
            return
        if (
            found.tier == "cuda-bound"
            and isinstance(node.func, ast.Name)
            and _references.is_alias(node.func, ctx)
        ):
            return
        edits = _operators.adapt(node, found, ctx)
        reason = edits if isinstance(edits, str) else _references.untouchable(node.func, ctx)
        target = f"{self.namespace}.{found.to}"
        if reason or isinstance(edits, str):
            yield self._refused(node, ctx, found, reason)
            return
        callee = _references.replace_name(ctx, node.func, target)
        kept = _is_kept(node.func)
        yield ctx.finding(
            self,
            node,
            _message(found),
            support=Support.REVIEW if found.support == "review" or kept else Support.AUTO,
            remedy=f"Use {target}, which runs on every device.",
            note=f"{found.note} {_KEPT if kept else ''}".strip(),
            edits=[*callee, *edits],
            qualified_name=found.name,
        )

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        yield from self._mention(node, ctx)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        yield from self._mention(node, ctx)

    def _mention(self, node: ast.expr, ctx: Context) -> Iterator[Finding]:
        """A callable that can't run elsewhere, passed around: its arguments are not visible."""
        parent = ctx.parent(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            return
        if isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(parent, ast.Attribute):
            return
        found = self._known(node, ctx)
        if found is None or found.tier != "cuda-bound" or _references.is_alias(node, ctx):
            return
        if isinstance(parent, (ast.Compare, ast.If, ast.BoolOp, ast.UnaryOp)):
            return  # only asks whether it was imported
        names_class = _sites.in_type_test(node, ctx) or _sites.in_annotation(node, ctx)
        if self.is_class and names_class and found.support == "auto":
            yield self._tested(node, ctx, found)
            return
        yield self._refused(node, ctx, found, "its arguments are not visible where it is passed around")

    def _tested(self, node: ast.expr, ctx: Context, found: _operators.Replacement) -> Finding:
        """A class in `isinstance` or an annotation: what the migrated program builds is of ours."""
        target = f"{self.namespace}.{found.to}"
        return ctx.finding(
            self,
            node,
            _message(found),
            support=Support.AUTO,
            remedy=f"Name {target}, of which the migrated layers are.",
            edits=_references.replace_name(ctx, node, target),
            qualified_name=found.name,
        )

    def _known(self, node: ast.expr, ctx: Context) -> _operators.Replacement | None:
        name = ctx.resolve(node)
        found = _operators.replacements(self.folder).get(name) if name is not None else None
        return found if found is not None and found.wanted(ctx.operators) else None

    def _refused(self, node: ast.expr, ctx: Context, found: _operators.Replacement, reason: str) -> Finding:
        return ctx.finding(
            self,
            node,
            _message(found),
            support=Support.MANUAL,
            remedy=f"Use {self.namespace}.{found.to} by hand: {reason.rstrip('.')}.",
            qualified_name=found.name,
        )


def _message(found: _operators.Replacement) -> str:
    if found.tier == "cuda-bound":
        return f"{found.name} runs on CUDA only"
    return f"{found.name} has a portable kernel"


def _is_kept(callee: ast.expr) -> bool:
    """Whether a function is called through an attribute of an object, which other files may set as well."""
    return isinstance(callee, ast.Attribute) and getattr(callee.value, "id", "") in ("self", "cls")
