"""Statements that refuse to run without CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from portkit import branches
from portkit.finding import DropStatement, Finding, Phase, Support
from portkit.rewriters import _sites
from portkit.rule import Context, Rule
from portkit.scopes import walk

# what has no counterpart: NVIDIA's compiler and libraries, and what is known of its chips only
_ONLY_CUDA = re.compile(
    r"\b(?:get_device_properties|get_device_capability|get_arch_list|CUDAGraph|cuda\.graph|cpp_extension"
    r"|CUDAExtension|load_inline|nvcc|CUDA_HOME|tensorrt|cudart|cupy|pycuda)\b"
)
_COUNTS = frozenset(
    {"torch.cuda.device_count", "torch.accelerator.device_count", "portkit.runtime.device_count"}
)


class CudaRequired(Rule):
    """The program stops where there is no CUDA.

    What: `assert torch.cuda.is_available()` and `if not torch.cuda.is_available(): raise ...` (or
    `sys.exit()`).
    An assertion that counts devices (`torch.cuda.device_count() > rank`) needs a review.
    Why: the migrated program runs without CUDA; renaming the test would keep it from running on the CPU.
    Instead: the statement goes. It stays where what follows in its block is for CUDA alone (the properties
    of a GPU, `nvcc`, CUDA graphs): the program would only fail later, and less clearly.
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
        needs = _still_needs(node, ctx)
        if needs:
            yield ctx.finding(
                self,
                node,
                "The program stops where there is no CUDA",
                support=Support.MANUAL,
                remedy=f"Remove the statement once {needs}, which follows, is gone or has another branch.",
                qualified_name=_sites.AVAILABLE,
            )
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


def _still_needs(node: ast.stmt, ctx: Context) -> str:
    """What follows a refusal in its block and is for CUDA alone, so that it would only fail later."""
    for item in branches.following(node, ctx):
        found = _ONLY_CUDA.search(ctx.source(item))
        if found is not None:
            return found[0]
    return ""


def _counts(test: ast.expr, ctx: Context) -> bool:
    """Whether a test asks for a number of devices: `torch.cuda.device_count() > rank`."""
    for item in walk(test):
        if isinstance(item, ast.Compare) and len(item.ops) == 1:
            counted = item.left if isinstance(item.ops[0], (ast.Gt, ast.GtE)) else item.comparators[0]
            if not isinstance(item.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE)):
                continue
            name = ctx.resolve(counted.func) if isinstance(counted, ast.Call) else None
            if name in _COUNTS:
                return True
    return False
