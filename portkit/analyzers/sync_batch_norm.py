"""Batch normalisation over several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rewriters import _sites
from portkit.rule import Context, Rule, named

_NAME = "torch.nn.SyncBatchNorm"
_CONVERT = f"{_NAME}.convert_sync_batchnorm"


class SyncBatchNorm(Rule):
    """Batch statistics are shared between processes.

    What: `torch.nn.SyncBatchNorm(...)` and `SyncBatchNorm.convert_sync_batchnorm(model)`.
    Why: in a process group, the layer refuses tensors on the CPU and on some accelerators.
    Instead: convert the model only where the device is an accelerator that the layer knows; on the CPU, each
    process then normalises its own share of the batch.
    Safety: nothing is rewritten: without shared statistics, small batches train differently. Type tests stay;
    what stands behind a test for an accelerator counts as portable.
    """

    id = "PK209"
    name = "sync_batch_norm"
    phase = Phase.MODULE
    minutes = 10
    triggers = (b"syncbatchnorm", b"convert_sync_batchnorm")

    @named
    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        yield from self._name(node, ctx)

    @named
    def visit_Name(self, node: ast.Name, ctx: Context) -> Iterable[Finding]:
        if isinstance(node.ctx, ast.Load) and not ctx.is_shadowed(node.id, node):
            yield from self._name(node, ctx)

    def _name(self, node: ast.expr, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node)
        if name not in (_NAME, _CONVERT) or isinstance(ctx.parent(node), ast.Attribute):
            return
        if _sites.in_type_test(node, ctx) or _sites.in_annotation(node, ctx):
            return
        guarded = _sites.is_accelerator_branch(node, ctx)
        yield ctx.finding(
            self,
            node,
            f"{name} refuses tensors on the CPU in a process group",
            support=Support.PORTABLE if guarded else Support.MANUAL,
            remedy="It is used only where there is an accelerator."
            if guarded
            else 'Use it only if pk.device_type() != "cpu".',
            qualified_name=name,
        )
