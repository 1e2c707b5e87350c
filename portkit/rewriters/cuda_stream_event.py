"""Streams and events of CUDA."""

from __future__ import annotations

import ast

from portkit.finding import Edit, Phase
from portkit.rewriters import _references, _sites
from portkit.rule import Context


class CudaStreamEvent(_references.ReferenceRule):
    """Work is ordered or timed with CUDA streams and events.

    What: `torch.cuda.Stream`, `Event`, `stream`, `current_stream`, `default_stream`, under any alias.
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
    triggers = (b"stream", b"event")
    what = "{name} exists on CUDA only"

    def replacement(self, node: ast.expr, ctx: Context, name: str, target: str) -> list[Edit]:
        """Annotations and type tests name torch's own device-independent classes."""
        if _sites.in_annotation(node, ctx) or _sites.in_type_test(node, ctx):
            target = f"torch.{name.rpartition('.')[2]}"
        return _references.replace_name(ctx, node, target)
