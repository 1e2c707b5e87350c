"""The description of a device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    """Backend, architecture and the width of a warp (a CPU has none: 0)."""

    backend: str
    arch: int | str
    warp_size: int


class BaseBackend:
    """Says which targets it compiles for."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether it compiles for a target."""
        return target.backend == "cpu"
