"""`torch.nn.Softmax` over the operator `softmax`."""

from __future__ import annotations

import torch

from portkit.runtime.ops.softmax import softmax


class Softmax(torch.nn.Softmax):
    """Softmax along one axis; constructor of torch.nn.Softmax."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Softmax along `dim`, any shape; without one torch chooses it, with a warning."""
        if self.dim is None:
            return super().forward(input)
        result: torch.Tensor = softmax(input, self.dim)
        return result
