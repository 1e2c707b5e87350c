"""Kernels and typed views of arrays, where libraries look for them."""

from __future__ import annotations

from portkit.runtime.tile.jit import JitFunction, Kernel, jit
from portkit.runtime.tile.language import constexpr_function
from portkit.runtime.tile.signature import CANONICAL, MockTensor, Param
from portkit.runtime.tile.wrapped import TensorWrapper, reinterpret

JITFunction = JitFunction
JITCallable = JitFunction
KernelInterface = Kernel
KernelParam = Param
type_canonicalisation_dict = CANONICAL

__all__ = [
    "JITCallable",
    "JITFunction",
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "TensorWrapper",
    "constexpr_function",
    "jit",
    "reinterpret",
    "type_canonicalisation_dict",
]
