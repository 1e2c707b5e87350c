"""Back ends and modes of `torch.compile` that exist for CUDA."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from portkit.finding import Finding, Phase, Support
from portkit.rewriters import _calls
from portkit.rule import Context, Rule

_OPTIONS = (
    "dynamic=None, disable=False, mode=None, options=None, guard_fn=None, fullgraph=False, nopython=False"
)
_COMPILERS = {
    "torch.compile": f"model=None, *, backend='inductor', {_OPTIONS}",
    "torch._dynamo.optimize": f"backend='inductor', *, {_OPTIONS}",
}
_CUDA_BACKENDS = {
    "aot_ts_nvfuser": "nvFuser",
    "nvprims_nvfuser": "nvFuser",
    "tensorrt": "TensorRT",
    "torch_tensorrt": "TensorRT",
    "fx2trt": "TensorRT",
}
_GRAPHS = ("cudagraphs", "aot_cudagraphs", "reduce-overhead", "max-autotune")


class CudaCompilerBackend(Rule):
    """`torch.compile` is asked for something that only CUDA has.

    What: `torch.compile(backend="tensorrt")` and other back ends for NVIDIA GPUs; the back end "cudagraphs"
    and the modes "reduce-overhead" and "max-autotune", which record CUDA graphs.
    Why: the back ends fail without CUDA. What records graphs is accepted everywhere and does without them.
    Instead: the default back end, which compiles for every device that torch has a compiler for.
    Safety: nothing is rewritten: which back end is as fast elsewhere has to be measured.
    """

    id = "PK207"
    name = "cuda_compiler_backend"
    phase = Phase.MODULE
    triggers = (b"torch.compile", b"import compile", b"dynamo")

    def visit_Call(self, node: ast.Call, ctx: Context) -> Iterable[Finding]:
        name = ctx.resolve(node.func)
        if name not in _COMPILERS:
            return
        bound = _calls.bind(node, _calls.signature(_COMPILERS[name]))
        if isinstance(bound, str):
            return  # nothing says CUDA here
        for argument in (bound.get("backend"), bound.get("mode")):
            if argument is not None:
                yield from self._option(argument.node, name, ctx)

    def _option(self, node: ast.expr, name: str, ctx: Context) -> Iterator[Finding]:
        value = ctx.constant(node)
        if not isinstance(value, str):
            return
        if value in _CUDA_BACKENDS:
            yield ctx.finding(
                self,
                node,
                f"The back end {value} compiles with {_CUDA_BACKENDS[value]}, for NVIDIA GPUs only",
                support=Support.MANUAL,
                remedy="Leave the back end out, so that torch compiles for the device at hand.",
                qualified_name=name,
            )
        if value in _GRAPHS:
            yield ctx.finding(
                self,
                node,
                f'"{value}" records CUDA graphs on CUDA',
                support=Support.PORTABLE,
                remedy="Other devices do without graphs.",
                qualified_name=name,
            )
