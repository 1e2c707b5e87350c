"""Handlers of CUDA's out-of-memory error."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rewriters._references import ReferenceRule
from portkit.rule import Context


class CudaOutOfMemory(ReferenceRule):
    """Running out of memory is recognised by CUDA's own exception or message.

    What: `torch.cuda.OutOfMemoryError`, and tests such as `"CUDA out of memory" in str(error)`.
    Why: other accelerators raise `torch.OutOfMemoryError`, with another text.
    Instead: `torch.OutOfMemoryError`, the same class object as CUDA's. Tests of the text are left to a
    person.
    Safety: the same object on CUDA. Needs torch 2.5. Some devices raise a plain `RuntimeError`.
    """

    id = "PK312"
    name = "cuda_out_of_memory"
    phase = Phase.FULL_MODEL
    triggers = (b"outofmemoryerror", b"out of memory")
    what = "{name} names the error of one device"

    def visit_Constant(self, node: ast.Constant, ctx: Context) -> Iterable[Finding]:
        if not isinstance(node.value, str) or "cuda out of memory" not in node.value.lower():
            return
        if not isinstance(ctx.parent(node), ast.Compare):
            return
        yield ctx.finding(
            self,
            node,
            "The error is recognised by CUDA's wording",
            support=Support.MANUAL,
            remedy='Catch torch.OutOfMemoryError, or test for "out of memory" in the lower-cased message.',
        )
