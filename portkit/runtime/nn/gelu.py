"""`torch.nn.GELU` over the operator `gelu`."""

from __future__ import annotations

import torch

from portkit.runtime.ops.gelu import gelu


class GELU(torch.nn.GELU):
    """Gaussian error linear unit; constructor of torch.nn.GELU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Element-wise, any shape."""
        result: torch.Tensor = gelu(input, self.approximate)
        return result
