"""What TorchScript compiles where a function calls an operator: torch's own kernel, with its signature.

`torch.jit.script` asks a function that it meets for `__prepare_scriptable__`; an operator answers with the
function of its name here.  TorchScript reads these sources: their annotations are those that it understands.
"""

# no `from __future__ import annotations`: TorchScript evaluates them
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def stand_in(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """What is compiled in the place of the operator `name`; the function itself where there is nothing."""
    found: Callable[..., Any] = globals().get(name, function)
    return found


def softmax(x: Tensor, dim: int, dtype: int | None = None) -> Tensor:
    return torch.softmax(x, dim, dtype=dtype)  # type: ignore[arg-type]


def log_softmax(x: Tensor, dim: int, dtype: int | None = None) -> Tensor:
    return torch.log_softmax(x, dim, dtype=dtype)  # type: ignore[arg-type]


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


def silu(x: Tensor) -> Tensor:
    return F.silu(x)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a, b)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight, bias)


def layer_norm(
    x: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    return F.layer_norm(x, normalized_shape, weight, bias, eps)


def rms_norm(
    x: Tensor,
    normalized_shape: list[int] | None = None,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    shape = normalized_shape
    if shape is None:
        if weight is None:
            raise ValueError("normalized_shape is needed where there is no weight")
        shape = list(weight.shape)
    return torch.rms_norm(x, shape, weight, eps)


def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    return F.cross_entropy(
        x, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> Tensor:
    if layout == "bshd":
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    elif layout != "bhsd":
        raise ValueError("TorchScript takes the layouts bhsd and bshd")
    mask = attn_mask
    causal = is_causal
    if is_causal and align == "bottom-right" and query.shape[-2] != key.shape[-2]:
        if attn_mask is not None or query.shape[-2] > key.shape[-2]:
            raise ValueError("TorchScript takes a mask at the bottom right alone, for fewer queries")
        ones = torch.ones([query.shape[-2], key.shape[-2]], dtype=torch.bool, device=query.device)
        mask = ones.tril(diagonal=key.shape[-2] - query.shape[-2])
        causal = False
    gqa = enable_gqa and query.shape[-3] != key.shape[-3]
    y = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout_p, is_causal=causal, scale=scale, enable_gqa=gqa
    )
    return y.transpose(1, 2) if layout == "bshd" else y
