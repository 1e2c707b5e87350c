"""Optimizers that ask for the fused implementation."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Replace, Support
from portkit.rewriters import _calls, _references
from portkit.rule import Context, Rule


class FusedOptimizer(Rule):
    """An optimizer insists on its fused implementation.

    What: `torch.optim.AdamW(..., fused=True)` and the other optimizers that take `fused`.
    Why: devices without a fused implementation raise.
    Instead: `fused=pk.device_type() == "cuda"`, so that other devices take torch's default.
    Safety: the same on CUDA. Elsewhere the same steps, unfused. Needs torch 2.6.
    """

    id = "PK105"
    name = "fused_optimizer"
    phase = Phase.OPERATOR
    triggers = (b"fused",)

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node.func) or ""
        given = _calls.argument(node, None, "fused")
        if not name.startswith("torch.optim.") or given is None:
            return
        if not (isinstance(given.node, ast.Constant) and given.node.value is True):
            return
        local, imports = ctx.use(_references.RUNTIME)
        text = f'{local}.device_type() == "cuda"'
        yield ctx.finding(
            self,
            given.node,
            f"{name}(fused=True) raises on devices without a fused implementation",
            support=Support.AUTO,
            remedy=f"Use fused={text}.",
            edits=[Replace(ctx.span(given.node), text), *imports],
            qualified_name=name,
        )
