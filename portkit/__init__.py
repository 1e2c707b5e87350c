"""Move training code off CUDA: scan it, migrate it, run it on any device, prove it computes the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portkit.runtime.tile.jit import jit

__version__ = "0.1.0"
__all__ = ["__version__", "jit"]


def __getattr__(name: str) -> Any:
    if name == "jit":  # the runtime is imported when a kernel is defined, not when portkit is
        from portkit.runtime.tile.jit import jit

        return jit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
