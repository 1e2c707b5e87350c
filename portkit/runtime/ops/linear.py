"""Affine map of the last axis: y = x @ weight^T + bias."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import (
    autocasts,
    dtype_name,
    is_foreign,
    is_tensor,
    pays,
    require_float,
    shape_text,
    transposed,
    wrong,
)
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._operator import Array, Operator, Reference, Sample, Tolerance
from portkit.runtime.ops.matmul import CORE


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Affine map of the last axis of `x`.

    x: (..., in); weight: (out, in) or (in,); bias: (out,) or None.
    All of one dtype: float16, bfloat16, float32 or float64; 16-bit products are summed in float32.
    Other torch tensors (integers, complex, sparse) go to torch unchanged.
    Returns (..., out), or (...) for a weight that is a vector.
    Raises UsageError if shapes do not fit, or dtypes differ.
    """
    if is_foreign(x) or is_foreign(weight):
        return vendor(x, weight, bias)
    require_float("linear", x=x, weight=weight, bias=bias)
    if weight.ndim not in (1, 2):
        raise wrong("linear", "weight", "(out, in) or (in,)", shape_text(weight))
    size = weight.shape[-1]
    if not (x.ndim > 0 and x.shape[-1] == size):
        raise wrong("linear", "x", f"(..., {size}), as weight is", shape_text(x))
    if bias is not None:
        shape = tuple(weight.shape[:-1])
        fits = tuple(bias.shape) == shape or is_tensor(bias)  # torch also takes what broadcasts
        if not fits:
            raise wrong("linear", "bias", f"of shape {shape}", shape_text(bias))
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and not autocasts(x):
            expected = f"of the dtype of x, {dtype_name(x)}"
            if other.dtype != x.dtype:
                raise wrong("linear", name, expected, dtype_name(other))
    return call(OPERATOR, x, weight, bias)


def reference(x: Any, weight: Any, bias: Any = None) -> Reference:
    """y_o = sum_i x_i w_oi + b_o."""
    y = np.asarray(x, np.float64) @ np.asarray(weight, np.float64).T
    return np.asarray(y if bias is None else y + np.asarray(bias, np.float64))


def reference_backward(grad: Any, x: Any, weight: Any, bias: Any = None) -> tuple[Reference | None, ...]:
    """dx = grad @ weight, dweight = grad^T @ x and dbias = sum grad over the leading axes."""
    x, weight, g = (np.asarray(v, np.float64) for v in (x, weight, grad))
    rows = g.reshape(-1, 1 if weight.ndim == 1 else weight.shape[0])
    flat = x.reshape(-1, x.shape[-1])
    dx = (rows @ np.atleast_2d(weight)).reshape(x.shape)
    dbias = None if bias is None else rows.sum(axis=0).reshape(np.shape(bias))
    return (dx, (rows.T @ flat).reshape(weight.shape), dbias)


def samples() -> Iterator[Sample]:
    """With and without bias; vectors to 4-d; odd, thin and transposed operands."""
    rng = np.random.default_rng(29)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    full = (0, 1, 2)
    yield Sample("matrix", (normal(16, 32), normal(24, 32), normal(24)), {}, full)
    yield Sample("odd", (normal(5, 7, 29), normal(41, 29), normal(41)), {}, full)
    yield Sample("no-bias", (normal(6, 20), normal(9, 20)), {}, (0, 1))
    yield Sample("vector", (normal(20), normal(9, 20), normal(9)), {}, full)
    yield Sample("one-feature", (normal(8, 1), normal(1, 1), normal(1)), {}, full)
    yield Sample("four-d", (normal(2, 3, 4, 12), normal(10, 12), normal(10)), {}, full)
    yield Sample("long", (normal(3, 1000), normal(5, 1000), normal(5)), {}, full)
    yield Sample("transposed", (normal(30, 9).T, normal(30, 21).T, normal(21)), {}, full)
    yield Sample("weight-vector", (normal(6, 20), normal(20)), {}, (0, 1))


def tile(core: Any, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """The kernel of matmul, with the weight transposed in place."""
    flat = x.reshape(1, -1, x.shape[-1])
    columns = transposed(weight if weight.ndim == 2 else weight[None, :])[None]
    return core(flat, columns, bias).reshape(*x.shape[:-1], *weight.shape[:-1])


def faster(x: Array, weight: Array, bias: Array | None = None) -> bool:
    """As matmul."""
    return weight.ndim == 2 and x.ndim > 1 and weight.shape[0] >= 16 and pays(x, float16=(2**13, 2**13))


def takes(x: Array, weight: Array, bias: Array | None = None) -> bool:
    """A bias of one number for each output, of one dtype with the rest."""
    return bias is None or (weight.ndim == 2 and tuple(bias.shape) == tuple(weight.shape[:1]))


def vendor(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """torch's own kernel."""
    import torch

    return torch.nn.functional.linear(x, weight, bias)


def composite(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """A matrix product and a sum."""
    y = x @ weight.t()
    return y if bias is None else y + bias.to(y.dtype)


OPERATOR = Operator(
    name="linear",
    function=linear,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={  # relative to sums over up to 1,000 products of unit normals
        "float16": Tolerance(2e-2, 2e-3),
        "bfloat16": Tolerance(1.2e-1, 1.6e-2),
        "float32": Tolerance(1e-4, 1e-5),
        "float64": Tolerance(1e-12, 1e-12),
    },
    vendor=vendor,
    composite=composite,
    core=CORE,
    tile=tile,
    takes=takes,
    faster=faster,
    small=2**12,
    autocast="lower",
)
