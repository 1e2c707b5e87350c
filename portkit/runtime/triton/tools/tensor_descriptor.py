"""Tensor descriptors made on the host."""

from __future__ import annotations

from portkit.runtime.tile.descriptor import TensorDescriptor

__all__ = ["TensorDescriptor"]
