"""Layer normalisation over the last axes: y = (x - mean) / sqrt(var + eps) * weight + bias."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import require, require_float
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._norm import affine_sum, normalized_axes, require_norm
from portkit.runtime.ops._operator import Array, Operator, Reference, Sample, Tolerance


def layer_norm(
    x: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """Layer normalisation of `x` over its last axes.

    x: (..., *normalized_shape), float16, bfloat16, float32 or float64.
    normalized_shape: sizes of the axes to normalise over; an int stands for one axis.
    weight, bias: shape normalized_shape or None; dtype of `x`, or float32 beside a 16-bit `x`.
    eps: added to the variance (which is the biased one).
    Returns the shape and dtype of `x`.
    Raises UsageError if shapes do not fit or numbers are not floating point.
    """
    require_float("layer_norm", x=x, weight=weight, bias=bias)
    shape = require_norm("layer_norm", x, normalized_shape, weight, bias)
    require(isinstance(eps, (int, float)), "layer_norm", "eps", "a number", repr(eps))
    return call(OPERATOR, x, shape, weight, bias, eps)


def reference(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Reference:
    """y = (x - E[x]) / sqrt(E[(x - E[x])^2] + eps) * weight + bias (Ba, Kiros and Hinton, 2016)."""
    y, _ = _normalized(x, normalized_shape, eps)
    y = y if weight is None else y * np.asarray(weight, np.float64)
    return np.asarray(y if bias is None else y + np.asarray(bias, np.float64))


def reference_backward(
    grad: Any, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> tuple[Reference | None, ...]:
    """With n = (x - mean) * rstd and h = grad * weight: dx = rstd (h - E[h] - n E[h n])."""
    normalized, rstd = _normalized(x, normalized_shape, eps)
    g = np.asarray(grad, np.float64)
    h = g if weight is None else g * np.asarray(weight, np.float64)
    axes = normalized_axes(normalized_shape)
    mean = h.mean(axis=axes, keepdims=True)
    dx = rstd * (h - mean - normalized * (h * normalized).mean(axis=axes, keepdims=True))
    dweight = None if weight is None else affine_sum(g * normalized, len(axes))
    dbias = None if bias is None else affine_sum(g, len(axes))
    return (dx, dweight, dbias)


def _normalized(x: Any, normalized_shape: Any, eps: float) -> tuple[Reference, Reference]:
    axes = normalized_axes(normalized_shape)
    x = np.asarray(x, np.float64)
    centred = x - x.mean(axis=axes, keepdims=True)
    rstd = 1.0 / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + eps)
    return centred * rstd, rstd


def samples() -> Iterator[Sample]:
    """With and without weight and bias; one or several axes; odd, long and strided rows; offsets."""
    rng = np.random.default_rng(11)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    def affine(*shape: int) -> tuple[Any, Any]:
        return 1 + normal(*shape) / 4, normal(*shape) / 4

    both = (0, 2, 3)
    yield Sample("matrix", (normal(8, 64), (64,), *affine(64)), differentiable=both)
    yield Sample("int-shape", (normal(4, 16), 16, *affine(16)), differentiable=both)
    yield Sample("odd", (normal(3, 5, 37), (37,), *affine(37)), {"eps": 1e-6}, both)
    yield Sample("two-axes", (normal(4, 3, 6, 5), (6, 5), *affine(6, 5)), differentiable=both)
    yield Sample("long-row", (normal(2, 5003), (5003,), *affine(5003)), differentiable=both)
    yield Sample("many-rows", (normal(70, 24), (24,), *affine(24)), differentiable=both)
    yield Sample("no-bias", (normal(6, 32), (32,), affine(32)[0]), differentiable=(0, 2))
    yield Sample("no-affine", (normal(6, 32), (32,)))
    yield Sample("bias-only", (normal(6, 32), (32,), None, affine(32)[1]), differentiable=(0, 3))
    yield Sample("vector", (normal(50), (50,), *affine(50)), differentiable=both)
    yield Sample("one-column", (normal(5, 1), (1,), *affine(1)), differentiable=both)
    yield Sample("offset", (normal(4, 48) + 100, (48,), *affine(48)), differentiable=both)
    yield Sample("transposed", (normal(40, 6).T, (40,), *affine(40)), differentiable=both)
    yield Sample("zeros", (np.zeros((3, 16), np.float32), (16,), *affine(16)), differentiable=both)


def vendor(
    x: Array, normalized_shape: Any, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """torch's own kernel."""
    import torch

    return torch.nn.functional.layer_norm(x, normalized_shape, weight, bias, eps)


def composite(
    x: Array, normalized_shape: Any, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """In torch calls that every device has, in float32 at least."""
    import torch

    axes = normalized_axes(normalized_shape)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(axes, keepdim=True)
    y = centred * torch.rsqrt((centred * centred).mean(axes, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype)


OPERATOR = Operator(
    name="layer_norm",
    function=layer_norm,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={
        "float16": Tolerance(1e-2, 4e-3),
        "bfloat16": Tolerance(8e-2, 1.6e-2),
        "float32": Tolerance(5e-5, 1e-5),
        "float64": Tolerance(1e-11, 1e-11),
    },
    vendor=vendor,
    composite=composite,
)
