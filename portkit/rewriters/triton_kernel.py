"""Kernels written for Triton."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import lru_cache

from portkit.finding import Finding, Phase, Support
from portkit.rewriters import _sites, _triton
from portkit.rule import Context, Rule


class TritonKernel(Rule):
    """A kernel is written for Triton.

    What: functions under `@triton.jit`, each with what it uses of the language, what of that portkit's
    compiler does not take, and where it is launched and tuned; files that use `triton` without a kernel of
    their own.
    Why: Triton compiles for GPUs only, and is missing on most other machines.
    Instead: the same kernel through portkit's tile compiler: `import portkit.runtime.triton as triton`
    and `import portkit.runtime.tile.language as tl`; nothing else in the file changes. All kernels of a
    file move together: one that uses something that the compiler does not take keeps the file as it is.
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

    def visit_FunctionDef(self, node: ast.FunctionDef, ctx: Context) -> Iterable[Finding]:
        if not _triton.is_kernel(node, ctx):
            return
        lost = [*_triton.missing(node, ctx), *_triton.unknown_syntax(node, ctx)]
        *_, module = ctx.parents(node)
        edits = _triton.rewritten(module, ctx)
        others = _others(module, ctx)  # type: ignore[arg-type]  # hashed by identity
        if lost:
            advice = " ".join(dict.fromkeys(filter(None, map(_triton.advice, lost)))) or "Write it otherwise."
            yield self._manual(
                node, ctx, f"The tile compiler does not take {', '.join(lost)}. {advice}", lost
            )
        elif isinstance(edits, str):
            yield self._manual(node, ctx, f"It compiles, but its file can't be moved: {edits}.")
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
        if first is not node or any(_triton.is_kernel(item, ctx) for item in ast.walk(module)):
            return
        edits = _triton.rewritten(module, ctx)
        lost = _triton.missing(module, ctx)
        if not isinstance(edits, str) and not lost:
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
        guarded = _sites.in_import_guard(node, ctx)
        reason = edits if isinstance(edits, str) else f"it uses {', '.join(lost)}"
        yield ctx.finding(
            self,
            node,
            "Triton is imported",
            support=Support.PORTABLE if guarded else Support.MANUAL,
            remedy="The program goes on without it." if guarded else f"The file can't be moved: {reason}.",
            qualified_name="triton",
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


@lru_cache(maxsize=4)  # asked for each kernel of a module in turn
def _others(module: ast.AST, ctx: Context) -> tuple[str, ...]:
    """What else in a file keeps its kernels from moving."""
    found = set(_triton.missing(module, ctx))
    for item in ast.walk(module):
        if isinstance(item, ast.FunctionDef) and _triton.is_kernel(item, ctx):
            found.update(_triton.unknown_syntax(item, ctx))
    return tuple(sorted(found))
