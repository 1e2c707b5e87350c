"""Build files that ask for CUDA."""

from __future__ import annotations

from collections.abc import Iterable

from portkit.analyzers import _lines, _patterns
from portkit.finding import Finding, Phase
from portkit.rule import Context, Rule
from portkit.source import Kind


class CudaBuildFile(Rule):
    """A build file of CMake or make asks for CUDA.

    What: `project(... CUDA)`, `find_package(CUDAToolkit)`, `CMAKE_CUDA_ARCHITECTURES`, `cuda_add_library`,
    sources that end with .cu, nvcc and its options, libraries of NVIDIA's. The table is
    `portkit/tables/build_files.toml`.
    Why: the build stops where there is no CUDA.
    Instead: CUDA as an option that is off where it is not found.
    Safety: nothing is rewritten.
    """

    id = "PK406"
    name = "cuda_build_file"
    phase = Phase.FULL_MODEL
    minutes = 20
    triggers = (
        b"cuda",
        b"nvcc",
        b"cudnn",
        b"nccl",
        b"tensorrt",
        b"nvinfer",
        b".cu",
        b"cutlass",
        b"thrust",
        b"_gpu",
        b"nvtx",
    )
    text_kinds = frozenset({Kind.CMAKE, Kind.MAKE})

    def visit_text(self, ctx: Context) -> Iterable[Finding]:
        return _patterns.find(self, ctx, _patterns.load("build_files"), _lines.lines(ctx.text))
