"""`torch.nn.Linear` over the operator `linear`."""

from __future__ import annotations

import torch

from portkit.runtime.ops.linear import linear


class Linear(torch.nn.Linear):
    """Affine map of the last axis; constructor of torch.nn.Linear."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(..., in_features) to (..., out_features)."""
        result: torch.Tensor = linear(input, self.weight, self.bias)
        return result
