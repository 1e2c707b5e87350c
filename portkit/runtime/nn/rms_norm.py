"""`torch.nn.RMSNorm` over the operator `rms_norm`."""

from __future__ import annotations

import torch

from portkit.runtime.ops.rms_norm import rms_norm


class RMSNorm(torch.nn.RMSNorm):
    """Root-mean-square normalisation over the last axes; constructor of torch.nn.RMSNorm."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise (..., *normalized_shape); raises UsageError if the sizes do not fit."""
        result: torch.Tensor = rms_norm(input, self.normalized_shape, self.weight, self.eps)
        return result
