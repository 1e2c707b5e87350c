"""Kernels written for Triton."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from portkit.finding import Effort, Finding, Phase, Support
from portkit.rewriters import _sites, _triton
from portkit.rule import Context, Rule
from portkit.scopes import walk

_IMPORT = 15  # minutes


class TritonKernel(Rule):
    """A kernel is written for Triton.

    What: functions under `@triton.jit`, each with what it uses of the language, what of that portkit's
    compiler does not take, and where it is launched and tuned; files that use `triton` without a kernel of
    their own.
    Why: Triton compiles for GPUs only, and is missing on most other machines.
    Instead: the same kernel through portkit's tile compiler: `import portkit.runtime.triton as triton`
    and `import portkit.runtime.tile.language as tl`; nothing else in the file changes. All kernels of a
    file move together, with the files that they share functions with: one kernel that uses something that the
    compiler does not take keeps them all as they are.
    Safety: on the CPU the tile compiler compiles the kernel; it chooses its own vector widths, so that
    launch options such as `num_warps` are accepted and have no effect, and sums may be added in another
    order. Tensors on CUDA still go to Triton itself, where it is installed: the same code with the same
    options.
    """

    id = "PK103"
    name = "triton_kernel"
    phase = Phase.OPERATOR
    minutes = 120
    triggers = (b"triton",)
    of_others = True  # a folder of the project may be called so, after the server

    def moving(self, module: ast.AST, ctx: Context) -> tuple[str, Sequence[ast.AST]] | None:
        if not any(True for _ in _triton.imports(module)):
            return None
        calling: list[ast.AST] = []
        for item in walk(module):
            if isinstance(item, ast.FunctionDef) and _triton.is_kernel(item, ctx):
                wrappers = [d.func if isinstance(d, ast.Call) else d for d in item.decorator_list]
                calling += [*item.body, *wrappers]
        return _triton.stays(module, ctx), calling

    def visit_FunctionDef(self, node: ast.FunctionDef, ctx: Context) -> Iterable[Finding]:
        if not _triton.is_kernel(node, ctx):
            return
        lost = [*_triton.missing(node, ctx), *_triton.unknown_syntax(node, ctx)]
        *_, module = ctx.parents(node)
        edits = _triton.rewritten(module, ctx)
        others = _triton.obstacles(module, ctx)  # type: ignore[arg-type]  # hashed by identity
        if lost:
            advice = " ".join(dict.fromkeys(filter(None, map(_triton.advice, lost)))) or "Write it otherwise."
            yield self._manual(
                node, ctx, f"The tile compiler does not take {', '.join(lost)}. {advice}", lost
            )
        elif isinstance(edits, str) or ctx.held:
            reason = edits if isinstance(edits, str) else ctx.held
            yield self._manual(node, ctx, f"It compiles, but its file can't be moved: {reason}.")
        elif others:
            yield self._manual(
                node,
                ctx,
                f"It compiles, but its file also uses {', '.join(others)}: move it to a file of its own.",
            )
        else:
            yield ctx.finding(
                self,
                node,
                _told(node, ctx, ()),
                support=Support.AUTO,
                remedy="Compile it with portkit's tile compiler: only the imports change.",
                edits=edits,
                qualified_name="triton.jit",
            )

    def visit_Import(self, node: ast.Import, ctx: Context) -> Iterable[Finding]:
        yield from self._import(node, ctx)

    def visit_ImportFrom(self, node: ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        yield from self._import(node, ctx)

    def _import(self, node: ast.Import | ast.ImportFrom, ctx: Context) -> Iterable[Finding]:
        """An import in a file without kernels: with kernels, it goes with them."""
        if not _triton.is_import(node):
            return
        *_, module = ctx.parents(node)
        first = next(_triton.imports(module), None)
        if first is not node or any(_triton.is_kernel(item, ctx) for item in walk(module)):
            return
        guarded = _sites.in_import_guard(node, ctx)
        if guarded and _triton.is_only_told(module, ctx):
            yield ctx.finding(
                self,
                node,
                "Triton is imported",
                support=Support.PORTABLE,
                remedy="The file tells which version of it is installed, and goes on without it.",
                qualified_name=_module(node),
            )
            return
        edits = _triton.rewritten(module, ctx)
        lost = _triton.missing(module, ctx)
        if not isinstance(edits, str) and not lost and not ctx.held:
            yield ctx.finding(
                self,
                node,
                "Triton is imported",
                support=Support.AUTO,
                remedy="Import portkit's tile compiler under the same name.",
                edits=edits,
                qualified_name="triton",
            )
            return
        reason = edits if isinstance(edits, str) else f"it uses {', '.join(lost)}" if lost else ctx.held
        yield ctx.finding(
            self,
            node,
            "Triton is imported",
            support=Support.PORTABLE if guarded else Support.MANUAL,
            remedy="The program goes on without it." if guarded else f"The file can't be moved: {reason}.",
            qualified_name=_module(node),
            effort=None if guarded else Effort(_IMPORT, "an import: what it brings is called on the host"),
        )

    def _manual(self, node: ast.FunctionDef, ctx: Context, remedy: str, lost: Sequence[str] = ()) -> Finding:
        return ctx.finding(
            self,
            node,
            _told(node, ctx, lost),
            support=Support.MANUAL,
            remedy=remedy,
            qualified_name="triton.jit",
        )


def _module(node: ast.Import | ast.ImportFrom) -> str:
    """What of Triton an import names first."""
    names = [item.name for item in node.names]
    if isinstance(node, ast.ImportFrom):
        return node.module if node.module and node.module != "triton" else f"triton.{names[0]}"
    return next(name for name in names if name.partition(".")[0] == "triton")


def _told(kernel: ast.FunctionDef, ctx: Context, lost: Sequence[str]) -> str:
    """What a kernel is: how it is launched, what of the language it uses, and what of that is not taken."""
    *_, module = ctx.parents(kernel)
    count = _triton.launches(module)[kernel.name]
    parts = [f"{kernel.name} is a Triton kernel"]
    if count:
        parts.append(f"launched in {count} place{'s' if count > 1 else ''}")
    parts += _triton.tuned(kernel, ctx)
    used = _triton.features(kernel, ctx)
    uses = f"; it uses {', '.join(used)}" if used else ""
    refused = (
        f"; not taken: {', '.join(item.removeprefix('triton.language.') for item in lost)}" if lost else ""
    )
    return ", ".join(parts) + uses + refused
