"""C++ that calls CUDA outside kernels."""

from __future__ import annotations

from collections.abc import Iterable

from portkit.analyzers import _cuda_text, _lines, _patterns
from portkit.finding import Finding, Phase
from portkit.rule import Context, Rule
from portkit.source import Kind


class CudaHostCode(Rule):
    """C++ code calls CUDA, or asks for it, outside kernels.

    What: `is_cuda()` and `CHECK_CUDA`, streams and guards (`getCurrentCUDAStream`, `CUDAGuard`), the runtime
    (`cudaMalloc`) and the driver, cuBLAS, cuDNN and others, NCCL, TensorRT, CUTLASS, CUB, Thrust, THC,
    headers of CUDA, registrations for CUDA, in C++ and CUDA sources and headers. Each is told once a file,
    with the number of its places; comments and strings do not count. The table is
    `portkit/tables/cuda_host.toml`.
    Why: the file does not compile without CUDA, or refuses tensors of other devices.
    Instead: it goes with the kernels around it; what remains asks the tensors for their device.
    Safety: nothing is rewritten.
    """

    id = "PK407"
    name = "cuda_host_code"
    phase = Phase.OPERATOR
    triggers = (
        *(
            b"cuda",
            b"thc",
            b"cublas",
            b"cudnn",
            b"cusparse",
            b"cusolver",
            b"curand",
            b"cufft",
            b"nccl",
            b"nvrtc",
            b"nvinfer",
            b"nvonnxparser",
        ),
        *(
            b"cub::",
            b"thrust",
            b"cutlass",
            b"cute::",
            b"nvshmem",
            b"nvml",
            b"check_gpu",
            b"mma.h",
            b"nvtx",
            b"<cub/",
        ),
    )
    text_kinds = frozenset({Kind.CUDA, Kind.CPP})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        code = _cuda_text.code(ctx.text)
        return _patterns.find(self, ctx, _patterns.load("cuda_host"), _lines.lines(code, comments=False))
