"""Where some libraries look for errors of compiling."""

from __future__ import annotations

from portkit.runtime.triton.compiler.errors import CompilationError, UnsupportedLanguageConstruct

__all__ = ["CompilationError", "UnsupportedLanguageConstruct"]
