"""`torch.nn.SiLU` over the operator `silu`."""

from __future__ import annotations

import torch

from portkit.runtime.ops.silu import silu


class SiLU(torch.nn.SiLU):
    """Sigmoid linear unit; constructor of torch.nn.SiLU."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Element-wise, any shape; with `inplace` the input is overwritten, by torch's own kernel."""
        if self.inplace:
            return super().forward(input)
        result: torch.Tensor = silu(input)
        return result
