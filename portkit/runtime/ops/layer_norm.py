"""Layer normalisation over the last axes: y = (x - mean) / sqrt(var + eps) * weight + bias."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from portkit.runtime.ops._again import differentiate
from portkit.runtime.ops._arrays import empty, pays, require_float, wrong
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._kernel import cdiv, constexpr, jit, next_power_of_2, tl
from portkit.runtime.ops._norm import affine_sum, normalized_axes, require_norm
from portkit.runtime.ops._operator import Array, Core, Operator, Reference, Sample, Tolerance
from portkit.runtime.ops._rows import GROUP, partial_sums, rows_of, sum_into


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
    if not isinstance(eps, (int, float)):
        raise wrong("layer_norm", "eps", "a number", repr(eps))
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
    yield Sample("offset", (normal(4, 48) + 10, (48,), *affine(48)), differentiable=both)
    yield Sample("transposed", (normal(40, 6).T, (40,), *affine(40)), differentiable=both)
    yield Sample("zeros", (np.zeros((3, 16), np.float32), (16,), *affine(16)), differentiable=both)


# --- tile kernels ----------------------------------------------------------------------------------


@jit(noalias=("y_ptr", "mean_ptr", "rstd_ptr"))
def forward_kernel(
    x_ptr: Any,
    weight_ptr: Any,
    bias_ptr: Any,
    y_ptr: Any,
    mean_ptr: Any,
    rstd_ptr: Any,
    n: Any,
    eps: Any,
    BLOCK: constexpr,
) -> None:
    """One row; mean and 1 / standard deviation are kept for the gradient."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / n
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    y = centred * rstd
    if weight_ptr is not None:
        y = y * tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y = y + tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n + columns, y, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@jit(noalias=("dx_ptr", "dweight_ptr", "dbias_ptr"))
def backward_kernel(
    grad_ptr: Any,
    x_ptr: Any,
    weight_ptr: Any,
    mean_ptr: Any,
    rstd_ptr: Any,
    dx_ptr: Any,
    dweight_ptr: Any,
    dbias_ptr: Any,
    rows: Any,
    n: Any,
    GROUP: constexpr,
    BLOCK: constexpr,
) -> None:
    """GROUP rows; their contributions to weight and bias are summed in one row of float32 each."""
    group = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    weight = tl.full((BLOCK,), 1.0, tl.float32)
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK,), tl.float32)
    dbias = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(group * GROUP, tl.minimum(group * GROUP + GROUP, rows)):
        at = row.to(tl.int64) * n + columns
        g = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        normalized = (x - tl.load(mean_ptr + row)) * rstd
        h = g * weight  # 0 outside, where normalized is not
        mean_h = tl.sum(h, 0) / n
        mean_hn = tl.sum(h * normalized, 0) / n
        tl.store(dx_ptr + at, rstd * (h - mean_h - normalized * mean_hn), mask=inside)
        dweight += g * normalized
        dbias += g
    if dweight_ptr is not None:
        tl.store(dweight_ptr + group.to(tl.int64) * n + columns, dweight, mask=inside)
    if dbias_ptr is not None:
        tl.store(dbias_ptr + group.to(tl.int64) * n + columns, dbias, mask=inside)


def allocate(
    x: Array, weight: Array | None, bias: Array | None, *, axes: int, eps: float
) -> tuple[Array, ...]:
    """y, like x; mean and 1 / standard deviation of each row, float32."""
    rows, _ = rows_of(x, axes)
    return empty(x, x.shape), empty(x, (rows,), "float32"), empty(x, (rows,), "float32")


def forward(
    outputs: tuple[Array, ...], x: Array, weight: Array | None, bias: Array | None, *, axes: int, eps: float
) -> None:
    """Normalise over the last `axes` axes."""
    rows, n = rows_of(x, axes)
    forward_kernel[(rows,)](x, weight, bias, *outputs, n, eps, BLOCK=next_power_of_2(n))


def backward(
    grads: tuple[Array | None, ...],
    grad: Array,
    x: Array,
    weight: Array | None,
    mean: Array,
    rstd: Array,
    *,
    axes: int,
    eps: float,
) -> None:
    """Gradients of x, weight and bias in one pass."""
    rows, n = rows_of(x, axes)
    dx = empty(x, x.shape) if grads[0] is None else grads[0]
    sums = [None if target is None else partial_sums(x, rows, n) for target in grads[1:]]
    options = {"GROUP": GROUP, "BLOCK": next_power_of_2(n)}
    backward_kernel[(cdiv(rows, GROUP),)](grad, x, weight, mean, rstd, dx, *sums, rows, n, **options)
    for target, partial in zip(grads[1:], sums, strict=True):
        sum_into(target, partial)


def again(
    grad: Array, x: Array, weight: Array | None, mean: Array, rstd: Array, *, axes: int, eps: float
) -> tuple[Array | None, ...]:
    """The same gradients by torch; the bias gets the sum."""
    import torch

    def forward(x: Array, weight: Array | None) -> Array:
        return torch.nn.functional.layer_norm(x, x.shape[x.ndim - axes :], weight, None, eps)

    leading = tuple(range(x.ndim - axes))
    return (*differentiate(forward, (x, weight), grad), grad.sum(leading) if leading else grad)


def tile(
    core: Any,
    x: Array,
    normalized_shape: Any,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """The kernels."""
    return core(x, weight, bias, axes=len(normalized_shape), eps=float(eps))


def takes(
    x: Array,
    normalized_shape: Any,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> bool:
    """A bias only beside a weight, and of its dtype."""
    return bias is None or (weight is not None and weight.dtype == bias.dtype)


def faster(x: Array, *args: Any) -> bool:
    """Never against torch, whose kernel is as fast."""
    return pays(x)


# --- implementations for torch ---------------------------------------------------------------------


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
    core=Core(
        allocate,
        forward,
        backward,
        ("y", "mean", "rstd"),
        {"x": "x", "weight": "weight", "bias": "weight"},
        again,
    ),
    tile=tile,
    faster=faster,
    small=math.inf,
    takes=takes,
)
