"""Errors under Triton's names."""

from __future__ import annotations

from portkit.errors import KernelError

TritonError = KernelError

__all__ = ["TritonError"]
