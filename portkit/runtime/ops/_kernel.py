"""The names that operators write kernels with.  For a type checker kernels hold only `Any`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from portkit.runtime.tile.jit import cdiv, jit, next_power_of_2

if TYPE_CHECKING:
    tl: Any
    constexpr: TypeAlias = Any
else:
    from portkit.runtime.tile import language as tl
    from portkit.runtime.tile.language import constexpr

__all__ = ["cdiv", "constexpr", "jit", "next_power_of_2", "tl"]
