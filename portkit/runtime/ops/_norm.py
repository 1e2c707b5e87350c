"""What the normalisations share: the axes, the checks of shapes, the sum over rows for weight and bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import shape_text, wrong
from portkit.runtime.ops._operator import Array, Reference


def normalized_axes(normalized_shape: Any) -> tuple[int, ...]:
    """Negative axis numbers that a normalized_shape stands for."""
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    return tuple(range(-count, 0))


def affine_sum(product: Reference, axes: int) -> Reference:
    """The sum over all but the last `axes` axes: the gradient of a weight or a bias."""
    return np.asarray(product.reshape(-1, *product.shape[product.ndim - axes :]).sum(axis=0))


def require_norm(
    operator: str, x: Array, normalized_shape: int | Sequence[int], weight: Array | None, bias: Array | None
) -> tuple[int, ...]:
    """Check the shapes of a normalisation; returns normalized_shape as a tuple."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    fits = 0 < len(shape) <= x.ndim and tuple(x.shape[x.ndim - len(shape) :]) == shape
    if not fits:
        raise wrong(operator, "normalized_shape", f"the last sizes of x, {shape_text(x)}", repr(shape))
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and not (tuple(value.shape) == shape):
            raise wrong(operator, name, f"of shape {shape}", shape_text(value))
    return shape
