"""`libdevice` where CUDA kernels import it from."""

from __future__ import annotations

from portkit.runtime.tile.language.extra import libdevice

__all__ = ["libdevice"]
