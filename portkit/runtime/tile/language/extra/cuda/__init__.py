"""Extensions where CUDA kernels import them from: `libdevice`, and hints about dependent launches."""

from __future__ import annotations

from portkit.runtime.tile.language._base import outside
from portkit.runtime.tile.language.extra import libdevice


def gdc_wait() -> None:
    """Accepted: launches do not overlap."""
    outside("extra.cuda.gdc_wait")


def gdc_launch_dependents() -> None:
    """Accepted: launches do not overlap."""
    outside("extra.cuda.gdc_launch_dependents")


__all__ = ["gdc_launch_dependents", "gdc_wait", "libdevice"]
