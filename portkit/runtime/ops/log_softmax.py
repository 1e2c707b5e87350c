"""Logarithm of softmax along one axis: y = x - m - log sum exp(x - m), with m = max x."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import (
    cast,
    dtype_text,
    empty,
    is_foreign,
    move_axis,
    pays,
    require_axis,
    require_float,
)
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._kernel import constexpr, jit, tl
from portkit.runtime.ops._operator import HALF, SINGLE, Array, Core, Operator, Reference, Sample
from portkit.runtime.ops._rows import WIDEST, block_for, rows_of


def log_softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    """Logarithm of the softmax of `x` along the axis `dim`, without rounding the softmax itself.

    x: any shape, float16, bfloat16, float32 or float64; a NumPy array or a torch tensor.
    dtype: what `x` is cast to first, and the dtype of the result (that of `x` by default).
    Other torch tensors (integers with a `dtype`, sparse) go to torch unchanged.
    Returns the same shape.  A row that holds only -inf gives NaN, as in torch.
    Raises UsageError for an axis that `x` does not have, or numbers that are not floating point.
    """
    if is_foreign(x):
        return vendor(x, dim, dtype)
    require_float("log_softmax", x=x)
    dim = require_axis("log_softmax", "dim", dim, x.ndim)
    return call(OPERATOR, x, dim, dtype=dtype)


def reference(x: Any, dim: int, dtype: Any = None) -> Reference:
    """y_i = x_i - m - log sum_j exp(x_j - m), with m = max_j x_j."""
    x = np.asarray(x, np.float64)
    if x.ndim == 0:
        return np.asarray(x - x)
    with np.errstate(invalid="ignore", divide="ignore"):
        x = x - x.max(axis=dim, keepdims=True, initial=-np.inf)
        return np.asarray(x - np.log(np.exp(x).sum(axis=dim, keepdims=True)))


def reference_backward(grad: Any, x: Any, dim: int, dtype: Any = None) -> tuple[Reference | None, ...]:
    """dL/dx_i = g_i - exp(y_i) sum_j g_j."""
    y = reference(x, dim)
    g = np.asarray(grad, np.float64)
    return (g - np.exp(y) * g.sum(axis=dim if y.ndim else None, keepdims=True),)


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


# --- tile kernels ----------------------------------------------------------------------------------


@jit(noalias=("y_ptr", "lse_ptr"))
def forward_kernel(x_ptr: Any, y_ptr: Any, lse_ptr: Any, n: Any, BLOCK: constexpr) -> None:
    """One row, as one tile."""
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row + columns, mask=inside, other=-float("inf")).to(tl.float32)
    top = tl.max(x, 0)
    log_total = tl.log(tl.sum(tl.exp(x - top), 0))
    tl.store(lse_ptr + tl.program_id(0), top + log_total)
    tl.store(y_ptr + row + columns, x - top - log_total, mask=inside)


@jit(noalias=("y_ptr", "lse_ptr"))
def forward_long_kernel(x_ptr: Any, y_ptr: Any, lse_ptr: Any, n: Any, BLOCK: constexpr) -> None:
    """One row, in blocks: once for the maximum and the sum, rescaled as the maximum grows, once for y."""
    row = tl.program_id(0).to(tl.int64) * n
    top = -3.4e38
    total = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
        top = higher
    log_total = tl.log(total)
    tl.store(lse_ptr + tl.program_id(0), top + log_total)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        tl.store(y_ptr + row + columns, x - top - log_total, mask=columns < n)


@jit(noalias=("dx_ptr",))
def backward_kernel(grad_ptr: Any, x_ptr: Any, lse_ptr: Any, dx_ptr: Any, n: Any, BLOCK: constexpr) -> None:
    """One row, in one or more blocks: dx = g - exp(x - lse) sum g."""
    row = tl.program_id(0).to(tl.int64) * n
    lse = tl.load(lse_ptr + tl.program_id(0))
    total = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(grad_ptr + row + columns, mask=columns < n, other=0.0).to(tl.float32), 0)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        g = tl.load(grad_ptr + row + columns, mask=columns < n, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row + columns, mask=columns < n, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row + columns, g - tl.exp(x - lse) * total, mask=columns < n)


def allocate(x: Array) -> tuple[Array, ...]:
    """y, like x; the logarithm of each row's sum of exponentials, float32: y may be too coarse to give it."""
    return empty(x, x.shape), empty(x, (rows_of(x)[0],), "float32")


def forward(outputs: tuple[Array, ...], x: Array) -> None:
    """Over the last axis."""
    rows, n = rows_of(x)
    kernel = forward_kernel if n <= WIDEST else forward_long_kernel
    kernel[(rows,)](x, *outputs, n, BLOCK=block_for(n))


def backward(grads: tuple[Array, ...], grad: Array, x: Array, lse: Array) -> None:
    """Its gradient."""
    rows, n = rows_of(x)
    backward_kernel[(rows,)](grad, x, lse, grads[0], n, BLOCK=block_for(n))


def again(grad: Array, x: Array, lse: Array) -> tuple[Array | None, ...]:
    """dx = g - softmax(x) sum g."""
    import torch

    return (grad - torch.softmax(x, -1) * grad.sum(-1, keepdim=True),)


def tile(core: Any, x: Array, dim: int, dtype: Any = None) -> Array:
    """The kernels, with the axis moved to the end and the input cast."""
    x = x if dtype is None else cast(x, dtype_text(dtype))
    return move_axis(core(move_axis(x, dim, -1)), -1, dim)


def takes(x: Array, dim: int, dtype: Any = None) -> bool:
    """Not scalars, and not in float64."""
    return x.ndim > 0 and (dtype is None or dtype_text(dtype) in ("float16", "bfloat16", "float32"))


def faster(x: Array, dim: int, dtype: Any = None) -> bool:
    """Rows that fit the near caches."""
    return x.ndim > 0 and x.shape[dim] <= WIDEST and pays(x, float32=(2**20, 2**21), float16=(2**20, 2**20))


# --- implementations for torch ---------------------------------------------------------------------


def vendor(x: Array, dim: int, dtype: Any = None) -> Array:
    """torch's own kernel."""
    import torch

    return torch.log_softmax(x, dim, dtype=dtype)


def composite(x: Array, dim: int, dtype: Any = None) -> Array:
    """In torch calls that every device has, in float32 at least."""
    import torch

    result = x.dtype if dtype is None else dtype
    if x.numel() == 0:
        return x.to(result) * 1
    wide = x.to(dtype=torch.promote_types(result, torch.float32))
    wide = wide - wide.detach().amax(dim, keepdim=True)
    return (wide - torch.log(torch.exp(wide).sum(dim, keepdim=True))).to(result)


OPERATOR = Operator(
    name="log_softmax",
    function=log_softmax,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={**HALF, **SINGLE},
    vendor=vendor,
    composite=composite,
    core=Core(allocate, forward, backward, ("y", "lse"), {"x": "x"}, again),
    tile=tile,
    faster=faster,
    small=2**20,
    takes=takes,
)
