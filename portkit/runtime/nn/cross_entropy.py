"""`torch.nn.CrossEntropyLoss` over the operator `cross_entropy`."""

from __future__ import annotations

import torch

from portkit.runtime.ops.cross_entropy import cross_entropy


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """Cross-entropy loss; constructor of torch.nn.CrossEntropyLoss."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Logits (N, C, ...) and targets (N, ...) to a scalar, or (N, ...) without reduction."""
        result: torch.Tensor = cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )
        return result
