"""Statements that refuse to run without CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import DropStatement, Finding, Phase, Support
from portkit.rewriters import _sites
from portkit.rule import Context, Rule


class CudaRequired(Rule):
    """The program stops where there is no CUDA.

    What: `assert torch.cuda.is_available()` and `if not torch.cuda.is_available(): raise ...` (or
    `sys.exit()`).
    Why: the migrated program runs without CUDA; renaming the test would keep it from running on the CPU.
    Instead: the statement goes.
    Safety: nothing changes on CUDA; elsewhere the program goes on instead of stopping. Needs no torch
    version.
    """

    id = "PK317"
    name = "cuda_required"
    phase = Phase.FULL_MODEL
    triggers = (b"is_available",)

    def visit_Assert(self, node: ast.Assert, ctx: Context) -> Iterable[Finding]:
        yield from self._statement(node, ctx)

    def visit_If(self, node: ast.If, ctx: Context) -> Iterable[Finding]:
        yield from self._statement(node, ctx)

    def _statement(self, node: ast.stmt, ctx: Context) -> Iterator[Finding]:
        if not _sites.refuses(node, ctx):
            return
        yield ctx.finding(
            self,
            node,
            "The program stops where there is no CUDA",
            support=Support.AUTO,
            remedy="Remove the statement: the migrated program runs on any device.",
            edits=[DropStatement(ctx.span(node))],
            qualified_name=_sites.AVAILABLE,
        )
