"""What `import triton` gives a kernel file, as `import portkit.runtime.triton as triton`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from portkit.runtime.tile import language
from portkit.runtime.tile.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from portkit.runtime.tile.jit import JitFunction, cdiv, jit, next_power_of_2

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "JITFunction",
    "autotune",
    "cdiv",
    "constexpr_function",
    "heuristics",
    "jit",
    "language",
    "next_power_of_2",
]

JITFunction = JitFunction
_F = TypeVar("_F", bound=Callable[..., Any])


def constexpr_function(fn: _F) -> _F:
    """Let kernels call an ordinary Python function on constants while they are compiled."""
    fn.constexpr_function = True  # type: ignore[attr-defined]
    return fn
