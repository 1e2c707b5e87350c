"""Compiling a kernel ahead of its launch."""

from __future__ import annotations

from portkit.runtime.tile.handle import CompiledKernel
from portkit.runtime.triton.compiler import code_generator, compiler, errors
from portkit.runtime.triton.compiler.compiler import ASTSource, compile
from portkit.runtime.triton.compiler.errors import CompilationError

__all__ = [
    "ASTSource",
    "CompilationError",
    "CompiledKernel",
    "code_generator",
    "compile",
    "compiler",
    "errors",
]
