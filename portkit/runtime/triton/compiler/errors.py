"""Errors of compiling a kernel, under Triton's names."""

from __future__ import annotations

from portkit.errors import KernelError

CompilationError = KernelError
CompileTimeAssertionFailure = KernelError
UnsupportedLanguageConstruct = KernelError

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"]
