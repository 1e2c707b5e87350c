"""Extensions where kernels for CPUs import them from."""

from __future__ import annotations

from portkit.runtime.tile.language.extra import libdevice

__all__ = ["libdevice"]
