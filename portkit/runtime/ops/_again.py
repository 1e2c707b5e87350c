"""Gradients that can be differentiated again, for `create_graph=True`: in torch's own calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portkit.runtime.ops._operator import Array


def differentiate(
    forward: Callable[..., Array], tensors: tuple[Array | None, ...], grad: Array
) -> tuple[Array | None, ...]:
    """The gradient of `forward(*tensors)` for each tensor, itself differentiable; None where not needed."""
    import torch

    wanted = [x for x in tensors if x is not None and x.requires_grad]
    if not wanted:
        return (None,) * len(tensors)
    untyped: Any = torch
    with torch.enable_grad():
        y = forward(*tensors)
        found = iter(untyped.autograd.grad(y, wanted, grad, create_graph=True))
    return tuple(next(found) if x is not None and x.requires_grad else None for x in tensors)
