"""`torch.nn.LayerNorm` over the operator `layer_norm`."""

from __future__ import annotations

import torch

from portkit.runtime.ops.layer_norm import layer_norm


class LayerNorm(torch.nn.LayerNorm):
    """Layer normalisation over the last axes; constructor of torch.nn.LayerNorm."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise (..., *normalized_shape); raises UsageError if the sizes do not fit."""
        result: torch.Tensor = layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return result
