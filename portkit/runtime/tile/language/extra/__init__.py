"""Extensions: `libdevice`, under the paths where kernels look for it."""

from __future__ import annotations

from portkit.runtime.tile.language.extra import cpu, cuda, libdevice

__all__ = ["cpu", "cuda", "libdevice"]
