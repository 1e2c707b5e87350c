"""Gradient scalers that name CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import DropArgument, Edit, Finding, NameArgument, Phase, Support
from portkit.rewriters import _calls, _references, _sites
from portkit.rule import Context

STANDARD = "torch.amp.GradScaler"
NAMES = ("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


class CudaGradScaler(_references.ReferenceRule):
    """Gradients are scaled by CUDA's own scaler.

    What: `torch.cuda.amp.GradScaler(...)`, `torch.amp.GradScaler("cuda", ...)`, and
    `torch.amp.GradScaler()`, whose device defaults to CUDA.
    Why: `torch.amp.GradScaler`'s first parameter is a device: a plain rename passes `init_scale` as one.
    CUDA's scaler switches itself off without CUDA, `torch.amp.GradScaler("cpu")` does not.
    Instead: `pk.amp.GradScaler(init_scale, ...)`, with the parameters and defaults of CUDA's scaler.
    Safety: the same on CUDA; other accelerators scale as CUDA does; off on a CPU-only build, as before.
    `isinstance` tests and `state_dict` keep working, since it makes `torch.amp.GradScaler` objects. Needs
    torch 2.6.
    """

    id = "PK202"
    name = "cuda_grad_scaler"
    phase = Phase.MODULE
    triggers = (b"gradscaler", b"grad_scaler")
    what = "{name} scales on CUDA only"

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Call(node, ctx)
        if ctx.resolve(node.func) == STANDARD:
            yield from self._standard(node, ctx)

    def replacement(self, node: ast.expr, ctx: Context, name: str, target: str) -> list[Edit]:
        """Annotations and type tests name torch's own device-independent class."""
        is_type = _sites.in_annotation(node, ctx) or _sites.in_type_test(node, ctx)
        return _references.replace_name(ctx, node, STANDARD if is_type else target)

    def _standard(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if _calls.is_starred(node):
            return
        device = _calls.argument(node, 0, "device")
        if device is not None and not _is_cuda(device.node):
            return
        text, imports = _references.spell(ctx, "pk.amp.GradScaler")
        span = ctx.span(node)
        edits: list[Edit] = [_calls.recallee(ctx, node, text), *imports]
        if device is not None:
            edits.append(DropArgument(span, index=device.index, keyword=device.keyword))
        edits.extend(NameArgument(span, i, NAMES[i]) for i in range(1, len(node.args)))
        yield ctx.finding(
            self,
            node,
            f"{STANDARD} scales on CUDA only",
            support=Support.AUTO,
            remedy=f"Use {text} with the same arguments.",
            edits=edits,
            qualified_name=STANDARD,
        )


def _is_cuda(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cuda")
