"""Devices that kernels compile for: the CPU, under the name that libraries ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portkit.runtime.triton.backends import compiler
from portkit.runtime.triton.backends.compiler import GPUTarget


@dataclass(frozen=True)
class Backend:
    """What compiles for a device, and what drives it."""

    compiler: Any
    driver: Any


def _backends() -> dict[str, Backend]:
    from portkit.runtime.triton.runtime.driver import CPUDriver

    return {"cpu": Backend(compiler.BaseBackend, CPUDriver)}


backends = _backends()

__all__ = ["Backend", "GPUTarget", "backends", "compiler"]
