"""Root-mean-square normalisation over the last axes: y = x / sqrt(mean(x^2) + eps) * weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from portkit.runtime.ops._again import differentiate
from portkit.runtime.ops._arrays import dtype_name, empty, pays, require_float, wrong
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._kernel import cdiv, constexpr, jit, next_power_of_2, tl
from portkit.runtime.ops._norm import affine_sum, normalized_axes, require_norm
from portkit.runtime.ops._operator import HALF, Array, Core, Operator, Reference, Sample, Tolerance
from portkit.runtime.ops._rows import GROUP, partial_sums, rows_of, sum_into


def rms_norm(
    x: Array,
    normalized_shape: int | Sequence[int] | None = None,
    weight: Array | None = None,
    eps: float | None = None,
) -> Array:
    """Root-mean-square normalisation of `x` over its last axes.

    x: (..., *normalized_shape), float16, bfloat16, float32 or float64.
    normalized_shape: sizes of the axes to normalise over; by default those of `weight`.
    weight: shape normalized_shape or None; dtype of `x`, or float32 beside a 16-bit `x`.
    eps: added to the mean square; by default the machine epsilon of the dtype that it is computed in
        (float32 for 16-bit types), as in torch.
    Returns the shape and dtype of `x`.
    Raises UsageError if shapes do not fit or numbers are not floating point.
    """
    require_float("rms_norm", x=x, weight=weight)
    if normalized_shape is None:
        if weight is None:
            raise wrong("rms_norm", "normalized_shape", "given if there is no weight", "None")
        normalized_shape = tuple(weight.shape)
    shape = require_norm("rms_norm", x, normalized_shape, weight, None)
    if eps is not None and not isinstance(eps, (int, float)):
        raise wrong("rms_norm", "eps", "a number or None", repr(eps))
    return call(OPERATOR, x, shape, weight, default_eps(x, eps))


def default_eps(x: Any, eps: float | None) -> float:
    """`eps`, or the machine epsilon of the dtype that `x` is computed in."""
    if eps is not None:
        return eps
    return float(np.finfo(np.float64 if dtype_name(x) == "float64" else np.float32).eps)


def reference(
    x: Any, normalized_shape: Any = None, weight: Any = None, eps: float | None = None
) -> Reference:
    """y = x / sqrt(E[x^2] + eps) * weight (Zhang and Sennrich, 2019)."""
    y, _ = _normalized(x, np.shape(weight) if normalized_shape is None else normalized_shape, eps)
    return np.asarray(y if weight is None else y * np.asarray(weight, np.float64))


def reference_backward(
    grad: Any, x: Any, normalized_shape: Any = None, weight: Any = None, eps: float | None = None
) -> tuple[Reference | None, ...]:
    """With n = x * rstd and h = grad * weight: dx = rstd (h - n E[h n])."""
    normalized_shape = np.shape(weight) if normalized_shape is None else normalized_shape
    normalized, rstd = _normalized(x, normalized_shape, eps)
    g = np.asarray(grad, np.float64)
    h = g if weight is None else g * np.asarray(weight, np.float64)
    axes = normalized_axes(normalized_shape)
    dx = rstd * (h - normalized * (h * normalized).mean(axis=axes, keepdims=True))
    return (dx, None if weight is None else affine_sum(g * normalized, len(axes)))


def _normalized(x: Any, normalized_shape: Any, eps: float | None) -> tuple[Reference, Reference]:
    axes = normalized_axes(normalized_shape)
    wide = np.asarray(x, np.float64)
    rstd = 1.0 / np.sqrt((wide**2).mean(axis=axes, keepdims=True) + default_eps(x, eps))
    return wide * rstd, rstd


def samples() -> Iterator[Sample]:
    """With and without weight; one or several axes; odd, long and strided rows; tiny and large values."""
    rng = np.random.default_rng(13)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    def weight(*shape: int) -> Any:
        return 1 + normal(*shape) / 4

    both = (0, 2)
    yield Sample("matrix", (normal(8, 64), (64,), weight(64), 1e-6), differentiable=both)
    yield Sample("default-shape", (normal(4, 16), None, weight(16), 1e-5), differentiable=both)
    yield Sample("odd", (normal(3, 5, 37), (37,), weight(37), 1e-5), differentiable=both)
    yield Sample("two-axes", (normal(4, 3, 6, 5), (6, 5), weight(6, 5), 1e-5), differentiable=both)
    yield Sample("long-row", (normal(2, 5003), (5003,), weight(5003), 1e-5), differentiable=both)
    yield Sample("many-rows", (normal(70, 24), (24,), weight(24), 1e-5), differentiable=both)
    yield Sample("no-weight", (normal(6, 32), (32,), None, 1e-5))
    yield Sample("one-column", (normal(5, 1), (1,), weight(1), 1e-5), differentiable=both)
    yield Sample("small", (normal(4, 48) / 100, (48,), weight(48), 1e-5), differentiable=both)
    yield Sample("large", (normal(4, 48) * 100, (48,), weight(48), 1e-5), differentiable=both)
    yield Sample("transposed", (normal(40, 6).T, (40,), weight(40), 1e-5), differentiable=both)
    yield Sample("zeros", (np.zeros((3, 16), np.float32), (16,), weight(16), 1e-5), differentiable=both)


# --- tile kernels ----------------------------------------------------------------------------------


@jit(noalias=("y_ptr", "rstd_ptr"))
def forward_kernel(
    x_ptr: Any, weight_ptr: Any, y_ptr: Any, rstd_ptr: Any, n: Any, eps: Any, BLOCK: constexpr
) -> None:
    """One row; 1 / root mean square is kept for the gradient."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, 0) / n + eps)
    y = x * rstd
    if weight_ptr is not None:
        y = y * tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n + columns, y, mask=inside)
    tl.store(rstd_ptr + row, rstd)


@jit(noalias=("dx_ptr", "dweight_ptr"))
def backward_kernel(
    grad_ptr: Any,
    x_ptr: Any,
    weight_ptr: Any,
    rstd_ptr: Any,
    dx_ptr: Any,
    dweight_ptr: Any,
    rows: Any,
    n: Any,
    GROUP: constexpr,
    BLOCK: constexpr,
) -> None:
    """GROUP rows; their contributions to the weight are summed in one row of float32."""
    group = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    weight = tl.full((BLOCK,), 1.0, tl.float32)
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(group * GROUP, tl.minimum(group * GROUP + GROUP, rows)):
        at = row.to(tl.int64) * n + columns
        g = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        normalized = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32) * rstd
        h = g * weight
        mean = tl.sum(h * normalized, 0) / n
        tl.store(dx_ptr + at, rstd * (h - normalized * mean), mask=inside)
        dweight += g * normalized
    if dweight_ptr is not None:
        tl.store(dweight_ptr + group.to(tl.int64) * n + columns, dweight, mask=inside)


def allocate(x: Array, weight: Array | None, *, axes: int, eps: float) -> tuple[Array, ...]:
    """y, like x; 1 / root mean square of each row, float32."""
    return empty(x, x.shape), empty(x, (rows_of(x, axes)[0],), "float32")


def forward(outputs: tuple[Array, ...], x: Array, weight: Array | None, *, axes: int, eps: float) -> None:
    """Normalise over the last `axes` axes."""
    rows, n = rows_of(x, axes)
    forward_kernel[(rows,)](x, weight, *outputs, n, eps, BLOCK=next_power_of_2(n))


def backward(
    grads: tuple[Array | None, ...],
    grad: Array,
    x: Array,
    weight: Array | None,
    rstd: Array,
    *,
    axes: int,
    eps: float,
) -> None:
    """Gradients of x and weight in one pass."""
    rows, n = rows_of(x, axes)
    dx = empty(x, x.shape) if grads[0] is None else grads[0]
    dweight = None if grads[1] is None else partial_sums(x, rows, n)
    options = {"GROUP": GROUP, "BLOCK": next_power_of_2(n)}
    backward_kernel[(cdiv(rows, GROUP),)](grad, x, weight, rstd, dx, dweight, rows, n, **options)
    sum_into(grads[1], dweight)


def again(
    grad: Array, x: Array, weight: Array | None, rstd: Array, *, axes: int, eps: float
) -> tuple[Array | None, ...]:
    """The same gradients by torch."""
    import torch

    def forward(x: Array, weight: Array | None) -> Array:
        return torch.nn.functional.rms_norm(x, x.shape[x.ndim - axes :], weight, eps)

    return differentiate(forward, (x, weight), grad)


def tile(
    core: Any, x: Array, normalized_shape: Any, weight: Array | None = None, eps: float | None = None
) -> Array:
    """The kernels."""
    return core(x, weight, axes=len(normalized_shape), eps=default_eps(x, eps))


def faster(x: Array, *args: Any) -> bool:
    """From mid sizes on: torch's gradient is a chain of calls."""
    return pays(x, float32=(2**17, 2**16), bfloat16=(2**17, 2**16), float16=(2**17, 2**16))


# --- implementations for torch ---------------------------------------------------------------------


def vendor(
    x: Array, normalized_shape: Any = None, weight: Array | None = None, eps: float | None = None
) -> Array:
    """torch's own kernel, except beside a weight of another dtype, where torch has none and warns."""
    import torch

    if weight is not None and weight.dtype != x.dtype:
        return composite(x, normalized_shape, weight, eps)
    return torch.nn.functional.rms_norm(x, normalized_shape, weight, eps)


def composite(
    x: Array, normalized_shape: Any = None, weight: Array | None = None, eps: float | None = None
) -> Array:
    """In torch calls that every device has, in float32 at least."""
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = (wide * wide).mean(normalized_axes(normalized_shape), keepdim=True)
    y = wide * torch.rsqrt(mean + default_eps(x, eps))
    return (y if weight is None else y * weight).to(x.dtype)


OPERATOR = Operator(
    name="rms_norm",
    function=rms_norm,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={
        **HALF,
        "float32": Tolerance(1e-5, 1e-5),
        "float64": Tolerance(1e-12, 1e-12),
    },
    vendor=vendor,
    composite=composite,
    core=Core(allocate, forward, backward, ("y", "rstd"), {"x": "x", "weight": "weight"}, again),
    tile=tile,
    faster=faster,
    small=2**16,
)
