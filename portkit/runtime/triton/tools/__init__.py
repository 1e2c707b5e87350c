"""Descriptions of arrays that kernels read in blocks."""

from __future__ import annotations

from portkit.runtime.triton.tools import tensor_descriptor

__all__ = ["tensor_descriptor"]
