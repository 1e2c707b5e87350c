"""Streams and events of CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from portkit.finding import Edit, Finding, Phase, Replace, Support
from portkit.rewriters import _references, _sites
from portkit.rule import Context


class CudaStreamEvent(_references.ReferenceRule):
    """Work is ordered or timed with CUDA streams and events.

    What: `torch.cuda.Stream`, `Event`, `stream`, `current_stream`, `default_stream`, under any alias;
    `tensor.record_stream(s)`; raw handles.
    Why: they fail without CUDA. `torch.Stream` and `torch.Event` are no drop-ins: `with s:` can't be
    entered twice, `stream(None)` was allowed, and `Event`'s first parameter is a device.
    Instead: `pk.Stream`, `pk.Event`, `pk.stream(s)`, `pk.current_stream()`: same arguments; on the CPU,
    where work is in order anyway, stand-ins that time with `time.perf_counter`. Annotations become
    `torch.Stream`.
    Safety: the same objects on CUDA. Raw handles (`stream.cuda_stream`) stay and are CUDA only. Needs
    torch 2.6.
    """

    id = "PK306"
    name = "cuda_stream_event"
    phase = Phase.FULL_MODEL
    minutes = 45
    triggers = (b"stream", b"event")
    what = "{name} exists on CUDA only"

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Call(node, ctx)
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr != "record_stream" or len(node.args) != 1:
            return
        if node.keywords or ctx.resolve(function) is not None:
            return
        text, imports = _references.spell(ctx, "pk.record_stream")
        whole = f"{text}({ctx.source(function.value)}, {ctx.source(node.args[0])})"
        yield ctx.finding(
            self,
            node,
            "record_stream() fails for tensors on the CPU",
            support=Support.AUTO,
            remedy=f"Use {text}(tensor, stream).",
            edits=[Replace(ctx.span(node), whole), *imports],
        )

    def visit_Attribute(self, node: ast.Attribute, ctx: Context) -> Iterable[Finding]:
        yield from super().visit_Attribute(node, ctx)
        if node.attr in ("cuda_stream", "cuda_event") and ctx.resolve(node) is None:
            yield ctx.finding(
                self,
                node,
                f".{node.attr} is a raw handle of CUDA",
                support=Support.MANUAL,
                remedy='Keep it under `if device.type == "cuda"`: it is for libraries that speak to CUDA.',
            )

    def replacement(self, node: ast.expr, ctx: Context, name: str, target: str) -> list[Edit]:
        """Annotations and type tests name torch's own device-independent classes."""
        if _sites.in_annotation(node, ctx) or _sites.in_type_test(node, ctx):
            target = f"torch.{name.rpartition('.')[2]}"
        return _references.replace_name(ctx, node, target)
