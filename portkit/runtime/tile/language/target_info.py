"""Questions about the device: it is none of those that kernels ask about."""

from __future__ import annotations

from portkit.runtime.tile.language._base import constexpr_function


@constexpr_function
def current_target() -> None:
    """None: no GPU."""
    return


@constexpr_function
def is_cuda() -> bool:
    """False."""
    return False


@constexpr_function
def is_hip() -> bool:
    """False."""
    return False


@constexpr_function
def is_hip_cdna3() -> bool:
    """False."""
    return False


@constexpr_function
def is_hip_cdna4() -> bool:
    """False."""
    return False


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """False: there is no such device."""
    return False


__all__ = [
    "cuda_capability_geq",
    "current_target",
    "is_cuda",
    "is_hip",
    "is_hip_cdna3",
    "is_hip_cdna4",
]
