"""CUDA graphs."""

from __future__ import annotations

from portkit.finding import Phase
from portkit.rewriters._references import ReferenceRule


class CudaGraph(ReferenceRule):
    """Work is captured in a CUDA graph.

    What: `torch.cuda.CUDAGraph`, `torch.cuda.graph`, `make_graphed_callables`, memory pools.
    Why: graphs and their memory pools exist on CUDA; `torch.accelerator.Graph` captures on the current
    stream, `torch.cuda.graph` on one of its own.
    Instead: run the region directly where the device is not CUDA, or let `torch.compile` remove the
    overhead.
    Safety: nothing is rewritten.
    """

    id = "PK205"
    name = "cuda_graph"
    phase = Phase.MODULE
    minutes = 60
    triggers = (b"graph", b"mempool", b"mem_pool", b"capturing")
    what = "{name} exists on CUDA only"
