"""Rules about names: every mention of a known name, called or not, is replaced by another name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, ClassVar

from portkit import tables
from portkit.finding import DropImport, Edit, Finding, NeedImport, Replace, Support
from portkit.rewriters import _index, _script, _signatures, _sites
from portkit.rule import Context, Rule, named

RUNTIME = "portkit.runtime"
# modules of torch.cuda that only matter as a whole where they are passed around: their members count else
MODULES = frozenset({"torch.cuda.memory", "torch.cuda.random", "torch.cuda.streams", "torch.cuda.graphs"})


def spell(ctx: Context, target: str) -> tuple[str, list[Edit]]:
    """Source text for a target name (`pk.synchronize`, `torch.Event`), and the imports it needs."""
    root, _, rest = target.partition(".")
    if root not in ("pk", "torch"):
        return _spell_own(ctx, *target.rsplit(".", 1))
    local, imports = ctx.use(RUNTIME if root == "pk" else root)
    return f"{local}.{rest}", list(imports)


def spell_at(node: ast.expr, ctx: Context, target: str) -> tuple[str, list[Edit]]:
    """The same in the place of `node`: what is torch in it stays, also where an import may have failed."""
    root, _, rest = target.partition(".")
    inner = _root(node)
    if root == "torch" and isinstance(inner, ast.Name) and ctx.resolve(inner) == "torch":
        return f"{inner.id}.{rest}", []
    return spell(ctx, target)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _spell_own(ctx: Context, module: str, name: str) -> tuple[str, list[Edit]]:
    """The same for a module of the project's own, which the import of its package need not bring."""
    local, imports = ctx.use(module)
    needed = not imports and "." in local  # found through its package alone
    return f"{local}.{name}", [*imports, *([NeedImport(module)] if needed else [])]


def replace_name(ctx: Context, node: ast.expr, target: str) -> list[Edit]:
    """Edits that put a target name in the place of a name, attribute or `getattr` call."""
    text, imports = spell_at(node, ctx, target)
    edits: list[Edit] = [Replace(ctx.span(node), text), *imports]
    root = _root(node)
    if isinstance(root, ast.Name) and not is_alias(root, ctx) and _may_go(ctx.resolve(root) or ""):
        edits.append(DropImport(root.id))
    return edits


def _may_go(name: str) -> bool:
    """Whether an import is worth removing once nothing uses it: modules of torch itself may stay."""
    return name.startswith("torch.cuda") or (not name.startswith("torch.nn") and name != "torch")


@cache
def known() -> frozenset[str]:
    """Every name in the table of torch.cuda, whatever rule it belongs to."""
    table = tables.load("torch_cuda")
    return frozenset(n for section in table.values() for group in section.values() for n in group)


def outermost(node: ast.expr, ctx: Context, name: str) -> bool:
    """Whether no longer known name starts here: `torch.cuda.nvtx` inside `torch.cuda.nvtx.range_push`."""
    parent = ctx.parent(node)
    if not isinstance(parent, ast.Attribute):
        return True
    return name not in MODULES and f"{name}.{parent.attr}" not in known()


class ReferenceRule(Rule):
    """A rule whose facts are a section of `tables/torch_cuda.toml` with the rule's name."""

    what: ClassVar[str] = "{name} works on CUDA only"

    def about(self, name: str) -> bool:
        own = type(self).reference is not ReferenceRule.reference  # may look at more names
        return own or self.handles(name)

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        return self.reference(node, ctx)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        return self.reference(node, ctx)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.func, ast.Name) and node.func.id == "getattr":
            return self.reference(node, ctx)
        return ()

    def reference(self, node: ast.expr, ctx: Context) -> Iterator[Finding]:
        """Findings for one mention of a name."""
        name = ctx.resolve(node)
        if name is None or not self.handles(name) or not self.whole(node, ctx, name) or is_alias(node, ctx):
            return
        if self.skip(node, ctx, name):
            return
        section = self.section()
        message = self.what.format(name=name)
        if name in section.get("portable", {}):
            fine = section["portable"][name]
            yield ctx.finding(self, node, message, support=Support.PORTABLE, remedy=fine, qualified_name=name)
            return
        target = section.get("to", {}).get(name) or section.get("review", {}).get(name, {}).get("to", "")
        reason = (
            untouchable(node, ctx) or self.refuse(node, ctx, name) or _signatures.misfit(node, target, ctx)
        )
        if name in section.get("manual", {}) or reason:
            remedy = section.get("manual", {}).get(name) or reason
            patched = _sites.patched_member(node, ctx)
            if patched:
                message, remedy = f"{name}.{patched} is patched", _sites.PATCHED
            yield ctx.finding(self, node, message, support=Support.MANUAL, remedy=remedy, qualified_name=name)
            return
        if name in section.get("review", {}):
            entry = section["review"][name]
            yield self.replaced(node, ctx, name, entry["to"], entry["note"])
            return
        yield self.replaced(node, ctx, name, section["to"][name], "")

    def replaced(self, node: ast.expr, ctx: Context, name: str, target: str, note: str) -> Finding:
        """The finding that puts `target` in the place of `name`."""
        edits = [*self.replacement(node, ctx, name, target), *self.more(node, ctx, name)]
        text = next(e.text for e in edits if isinstance(e, Replace))
        if _sites.is_called(node, ctx) is not None and not text.endswith(")"):
            text = f"{text}()"
        return ctx.finding(
            self,
            node,
            self.what.format(name=name),
            support=Support.REVIEW if note else Support.AUTO,
            remedy=f"Use {text}.",
            note=note,
            edits=edits,
            qualified_name=name,
        )

    def replacement(self, node: ast.expr, ctx: Context, name: str, target: str) -> list[Edit]:
        """The edits that replace a mention; a rule overrides it where the place matters."""
        return replace_name(ctx, node, target)

    def handles(self, name: str) -> bool:
        """Whether a name belongs to this rule."""
        return any(name in group for group in self.section().values())

    def section(self) -> dict[str, Any]:
        """The facts of this rule: `to`, `review`, `manual` and `portable`, by name."""
        found: dict[str, Any] = tables.load("torch_cuda")[self.name]
        return found

    def whole(self, node: ast.expr, ctx: Context, name: str) -> bool:
        """Whether no longer known name starts here."""
        return outermost(node, ctx, name)

    def skip(self, node: ast.expr, ctx: Context, name: str) -> bool:
        """Whether another rule, or nobody, has to look at this mention."""
        return False

    def refuse(self, node: ast.expr, ctx: Context, name: str) -> str:
        """Why this mention can't be replaced, though the name could be; empty if it can."""
        return ""

    def more(self, node: ast.expr, ctx: Context, name: str) -> list[Edit]:
        """Further edits that belong to the replacement."""
        return []


def is_alias(node: ast.expr, ctx: Context) -> bool:
    """Whether an expression stands for an assigned value, which is reported where it is assigned."""
    if ctx.is_assigned_elsewhere(node):
        return True
    if isinstance(node, ast.Attribute):
        return ctx.resolve(node.value) is None
    if not isinstance(node, ast.Name):
        return False
    index = _index.of(node, ctx)
    return node.id in index.stored and node.id not in index.imported


def is_partial(node: ast.expr, ctx: Context) -> bool:
    """Whether a callee already has some arguments bound, so that those of the call are not all."""
    value: ast.expr | None = node
    if isinstance(node, ast.Name) and is_alias(node, ctx):
        values = _index.of(node, ctx).values.get(node.id, [])
        value = values[0] if len(values) == 1 else None
    return isinstance(value, ast.Call) and ctx.resolve(value.func) != "getattr"


def untouchable(node: ast.expr, ctx: Context) -> str:
    """Why a mention of a replaceable name must stay as it is; empty if it may go."""
    if _sites.is_written(node):
        return "The name is patched here: patch the function that the migrated code calls instead."
    if _script.in_torchscript(node, ctx):
        return "The function is compiled by TorchScript, which can't call portkit: move the call out of it."
    parent = ctx.parent(node)
    if isinstance(parent, ast.ClassDef):
        return "A class extends it here: extend the portable class instead, and check its constructor."
    if isinstance(parent, ast.Attribute):
        return (
            f'The member {parent.attr} of it has no portable form: keep it under `if device.type == "cuda"`.'
        )
    return ""
