"""torch.nn.DataParallel."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Finding, Phase, Support
from portkit.rule import Context, Rule

_NAMES = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel",
        "torch.nn.parallel.scatter",
        "torch.nn.parallel.gather",
        "torch.nn.parallel.replicate",
        "torch.nn.parallel.parallel_apply",
    }
)


class DataParallel(Rule):
    """A module is split over GPUs within one process.

    What: `torch.nn.DataParallel` and the functions that it is made of.
    Why: most accelerators do not support it; without one it runs the module unchanged.
    Instead: `torch.nn.parallel.DistributedDataParallel`, one process a device, started by `torchrun`.
    Safety: nothing is rewritten: the training script has to start processes.
    """

    id = "PK309"
    name = "data_parallel"
    phase = Phase.FULL_MODEL
    minutes = 60
    triggers = (b"parallel",)

    def visit_ClassDef(self, node: ast.ClassDef, ctx: Context) -> Iterable[Finding]:
        for base in node.bases:
            name = ctx.resolve(base)
            if name in _NAMES:
                yield ctx.finding(
                    self,
                    base,
                    f"{node.name} extends {name}, which is for several CUDA devices in one process",
                    support=Support.MANUAL,
                    remedy="Use DistributedDataParallel with one process a device.",
                    qualified_name=name,
                )

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node.func)
        if name not in _NAMES:
            return
        yield ctx.finding(
            self,
            node,
            f"{name} is for several CUDA devices in one process",
            support=Support.MANUAL,
            remedy="Use DistributedDataParallel with one process a device.",
            qualified_name=name,
        )
