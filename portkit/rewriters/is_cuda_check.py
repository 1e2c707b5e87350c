"""Tensors that are asked whether they are on CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Replace, Support
from portkit.rewriters import _references, _sites, _vendor
from portkit.rule import Context, Rule


class IsCudaCheck(Rule):
    """A tensor is asked whether it is on CUDA, where any accelerator would do.

    What: `x.is_cuda`.
    Why: it is false on every other accelerator, though the code behind it may run there.
    Instead: `pk.is_accelerator(x)`. A branch with something of NVIDIA's in it, and TorchScript, keep the
    test.
    Safety: the same on CUDA, on the CPU and for tensors on `meta`.
    """

    id = "PK107"
    name = "is_cuda_check"
    phase = Phase.OPERATOR
    triggers = (b"is_cuda",)

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        if node.attr != "is_cuda" or not isinstance(node.ctx, ast.Load) or ctx.resolve(node) is not None:
            return
        message = ".is_cuda is false on every accelerator but CUDA"
        if _vendor.is_vendor(node, ctx) or _sites.in_torchscript(node, ctx) or _sites.is_called(node, ctx):
            yield ctx.finding(
                self,
                node,
                message,
                support=Support.MANUAL,
                remedy="The code behind it is for CUDA only: add a branch for other devices.",
            )
            return
        local, imports = ctx.use(_references.RUNTIME)
        text = f"{local}.is_accelerator({ctx.source(node.value)})"
        yield ctx.finding(
            self,
            node,
            message,
            support=Support.AUTO,
            remedy=f"Use {text}.",
            edits=[Replace(ctx.span(node), text), *imports],
        )
