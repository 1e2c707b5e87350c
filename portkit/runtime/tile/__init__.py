"""The tile compiler: kernels written in Python over tiles, compiled for the machine that they run on."""

from __future__ import annotations

from portkit.runtime.tile.stand_in import as_triton

__all__ = ["as_triton"]
