"""What `import triton` gives a kernel file, as `import portkit.runtime.triton as triton`.

The modules of this package have the names and contents that kernels and the libraries around them look for in
Triton; `portkit.runtime.tile.as_triton` puts them in Triton's place.
"""

from __future__ import annotations

from portkit.runtime.tile import language
from portkit.runtime.tile.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from portkit.runtime.tile.jit import JitFunction, Kernel, cdiv, jit, next_power_of_2
from portkit.runtime.tile.language import constexpr_function, must_use_result
from portkit.runtime.tile.wrapped import TensorWrapper, reinterpret
from portkit.runtime.triton import backends, compiler, errors, knobs, runtime, testing, tools
from portkit.runtime.triton.compiler import CompilationError, compile
from portkit.runtime.triton.errors import TritonError
from portkit.runtime.triton.runtime import InterpreterError, MockTensor, OutOfResources
from portkit.runtime.triton.runtime._allocation import set_allocator

__version__ = "3.7.0"  # whose interface this is

__all__ = [
    "Autotuner",
    "CompilationError",
    "Config",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "TritonError",
    "autotune",
    "backends",
    "cdiv",
    "compile",
    "compiler",
    "constexpr_function",
    "errors",
    "heuristics",
    "jit",
    "knobs",
    "language",
    "must_use_result",
    "next_power_of_2",
    "reinterpret",
    "runtime",
    "set_allocator",
    "testing",
    "tools",
]

JITFunction = JitFunction
KernelInterface = Kernel
