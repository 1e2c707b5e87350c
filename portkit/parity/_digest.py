"""A few numbers that stand for a tensor in a trace: enough to see, on another machine, whether it differs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

_LARGEST = 1 << 16  # elements that are looked at; of larger tensors, so many at equal distances
_STEPS = (0.7548776662466927, 0.5698402909980532)  # no multiple of one is near one of the other


def digest(tensor: Any) -> dict[str, Any]:
    """Shape, dtype, and numbers that change when elements change, move or lose their order."""
    with torch.no_grad():
        flat = tensor.detach()
        flat = flat.to_dense() if flat.is_sparse else flat
        flat = flat.reshape(-1)
        if flat.numel() > _LARGEST:
            flat = flat[:: -(-flat.numel() // _LARGEST)]
        flat = (flat.abs() if flat.is_complex() else flat).cpu()
        whole = flat.numel() and not flat.is_floating_point() and flat.dtype != torch.bool
        limits = {"range": [int(flat.min()), int(flat.max())]} if whole else {}
        flat = flat.double()
        finite = torch.isfinite(flat)
        odd = int((~finite).sum())
        flat = torch.where(finite, flat, 0.0)
        count = max(1, flat.numel())
        index = torch.arange(flat.numel(), dtype=torch.float64)
        sums = [float((flat * torch.cos(2 * math.pi * step * index)).sum()) for step in _STEPS]
        return {
            **limits,
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "nonfinite": odd,
            "rms": float(flat.square().mean().sqrt()) if flat.numel() else 0.0,
            "numbers": [float(flat.sum()) / count**0.5, *(value / count**0.5 for value in sums)],
        }


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in nested tuples, lists and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)


def mapped(value: Any, change: Any) -> Any:
    """The same nesting, with `change` applied to every tensor."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, change) for item in value))
    if type(value) in (list, tuple):
        return type(value)(mapped(item, change) for item in value)
    if type(value) is dict:
        return {key: mapped(item, change) for key, item in value.items()}
    return value


def arguments(args: Any, kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The plain arguments of a call, by position or name, and where its tensors stand."""
    named = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
    plain = {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in named.items() if _is_plain(v)}
    return plain, [key for key, value in named.items() if isinstance(value, torch.Tensor)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, (bool, int, float)) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))
