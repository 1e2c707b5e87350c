"""Statements that refuse to run without CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import DropStatement, Finding, Phase, Support
from portkit.rewriters import _sites
from portkit.rule import Context, Rule

_COUNTS = frozenset(
    {"torch.cuda.device_count", "torch.accelerator.device_count", "portkit.runtime.device_count"}
)


class CudaRequired(Rule):
    """The program stops where there is no CUDA.

    What: `assert torch.cuda.is_available()` and `if not torch.cuda.is_available(): raise ...` (or
    `sys.exit()`).
    An assertion that counts devices (`torch.cuda.device_count() > rank`) needs a review.
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
        if _counts(node.test, ctx):
            yield ctx.finding(
                self,
                node,
                "The program stops where there are too few devices, and the CPU counts as none",
                support=Support.REVIEW,
                remedy="Remove the assertion.",
                note="Where there are too few devices, the program fails later: when it sets the device.",
                edits=[DropStatement(ctx.span(node))],
            )

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


def _counts(test: ast.expr, ctx: Context) -> bool:
    """Whether a test asks for a number of devices: `torch.cuda.device_count() > rank`."""
    for item in ast.walk(test):
        if isinstance(item, ast.Compare) and len(item.ops) == 1:
            counted = item.left if isinstance(item.ops[0], (ast.Gt, ast.GtE)) else item.comparators[0]
            if not isinstance(item.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE)):
                continue
            name = ctx.resolve(counted.func) if isinstance(counted, ast.Call) else None
            if name in _COUNTS:
                return True
    return False
