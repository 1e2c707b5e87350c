"""Softmax along one axis: y = exp(x - max x) / sum exp(x - max x)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import is_foreign, require_axis, require_float
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._operator import HALF, SINGLE, Array, Operator, Reference, Sample


def softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    """Softmax of `x` along the axis `dim`.

    x: any shape, float16, bfloat16, float32 or float64; a NumPy array or a torch tensor.
    dtype: what `x` is cast to first, and the dtype of the result (that of `x` by default).
    Other torch tensors (integers with a `dtype`, sparse) go to torch unchanged.
    Returns the same shape.  A row that holds only -inf gives NaN, as in torch.
    Raises UsageError for an axis that `x` does not have, or numbers that are not floating point.
    """
    if is_foreign(x):
        return vendor(x, dim, dtype)
    require_float("softmax", x=x)
    dim = require_axis("softmax", "dim", dim, x.ndim)
    return call(OPERATOR, x, dim, dtype=dtype)


def reference(x: Any, dim: int, dtype: Any = None) -> Reference:
    """y_i = exp(x_i - m) / sum_j exp(x_j - m), with m = max_j x_j."""
    x = np.asarray(x, np.float64)
    if x.ndim == 0:
        return np.asarray(np.exp(x - x))
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis=dim, keepdims=True, initial=-np.inf))
        return np.asarray(e / e.sum(axis=dim, keepdims=True))


def reference_backward(grad: Any, x: Any, dim: int, dtype: Any = None) -> tuple[Reference | None, ...]:
    """dL/dx_i = y_i (g_i - sum_j g_j y_j)."""
    y = reference(x, dim)
    product = np.asarray(grad, np.float64) * y
    return (product - y * product.sum(axis=dim if y.ndim else None, keepdims=True),)


def samples() -> Iterator[Sample]:
    """Rows that are short, long, odd, masked, huge, strided; every axis."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    yield Sample("row", (normal(1, 8), -1))
    yield Sample("matrix", (normal(16, 64), 1))
    yield Sample("odd", (normal(5, 37), -1))
    yield Sample("one-column", (normal(7, 1), -1))
    yield Sample("long-row", (normal(2, 5003), -1))
    yield Sample("first-axis", (normal(33, 6), 0))
    yield Sample("four-d-middle", (normal(2, 3, 5, 7), -2))
    yield Sample("vector", (normal(129), 0))
    yield Sample("transposed", (normal(24, 10).T, -1))
    yield Sample("every-other", (normal(6, 50)[:, ::2], -1))
    yield Sample("huge", (normal(4, 33) * 1e4, -1))
    masked = np.where(rng.random((9, 40)) < 0.5, np.float32(-np.inf), normal(9, 40))
    masked[:, 0] = 0.0
    yield Sample("masked", (masked, -1))
    yield Sample("equal", (np.zeros((3, 20), np.float32), -1))


def vendor(x: Array, dim: int, dtype: Any = None) -> Array:
    """torch's own kernel."""
    import torch

    return torch.softmax(x, dim, dtype=dtype)


def composite(x: Array, dim: int, dtype: Any = None) -> Array:
    """In torch calls that every device has, in float32 at least."""
    import torch

    result = x.dtype if dtype is None else dtype
    wide = x.to(dtype=torch.promote_types(result, torch.float32))
    e = torch.exp(wide - wide.detach().amax(dim, keepdim=True))
    return (e / e.sum(dim, keepdim=True)).to(result)


OPERATOR = Operator(
    name="softmax",
    function=softmax,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={**HALF, **SINGLE},
    vendor=vendor,
    composite=composite,
)
