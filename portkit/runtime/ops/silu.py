"""SiLU (swish): y = x * sigmoid(x)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._again import differentiate
from portkit.runtime.ops._arrays import empty, pays, require_float
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._kernel import cdiv, constexpr, jit, tl
from portkit.runtime.ops._operator import HALF, SINGLE, Array, Core, Operator, Reference, Sample

BLOCK = 4096  # elements of one program


def silu(x: Array) -> Array:
    """Sigmoid linear unit of every element.

    x: any shape, float16, bfloat16, float32 or float64.
    Returns the shape and dtype of `x`.  Raises UsageError for other dtypes.
    """
    require_float("silu", x=x)
    return call(OPERATOR, x)


def reference(x: Any) -> Reference:
    """x / (1 + exp(-x)) (Elfwing, Uchibe and Doya, 2017)."""
    x = np.asarray(x, np.float64)
    return np.asarray(x * _sigmoid(x))


def reference_backward(grad: Any, x: Any) -> tuple[Reference | None, ...]:
    """With s the sigmoid: s (1 + x (1 - s))."""
    x = np.asarray(x, np.float64)
    s = _sigmoid(x)
    return (np.asarray(grad, np.float64) * s * (1 + x * (1 - s)),)


def _sigmoid(x: Reference) -> Reference:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1 + small))


def samples() -> Iterator[Sample]:
    """Ordinary, tiny, large and strided inputs."""
    rng = np.random.default_rng(19)
    yield Sample("matrix", (rng.standard_normal((8, 65), np.float32),))
    yield Sample("wide", (rng.standard_normal((3, 1000), np.float32) * 4,))
    yield Sample("four-d", (rng.standard_normal((2, 3, 4, 5), np.float32),))
    yield Sample("transposed", (rng.standard_normal((30, 7), np.float32).T,))
    edges = [0.0, -0.0, 1e-6, -1e-6, 20.0, -20.0, 90.0, -90.0, 1000.0, -1000.0]
    yield Sample("edges", (np.array(edges, np.float32),))
    yield Sample("one", (np.array([0.5], np.float32),))


# --- tile kernels ----------------------------------------------------------------------------------


@jit(noalias=("y_ptr",))
def forward_kernel(x_ptr: Any, y_ptr: Any, n: Any, BLOCK: constexpr) -> None:
    """x * sigmoid(x)."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, x * tl.sigmoid(x), mask=at < n)


@jit(noalias=("dx_ptr",))
def backward_kernel(grad_ptr: Any, x_ptr: Any, dx_ptr: Any, n: Any, BLOCK: constexpr) -> None:
    """g * s * (1 + x (1 - s))."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    g = tl.load(grad_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    s = tl.sigmoid(x)
    tl.store(dx_ptr + at, g * s * (1.0 + x * (1.0 - s)), mask=at < n)


def allocate(x: Array) -> tuple[Array, ...]:
    """y, like x."""
    return (empty(x, x.shape),)


def forward(outputs: tuple[Array, ...], x: Array) -> None:
    """Every element."""
    n = math.prod(x.shape)
    forward_kernel[(cdiv(n, BLOCK),)](x, outputs[0], n, BLOCK=BLOCK)


def backward(grads: tuple[Array, ...], grad: Array, x: Array) -> None:
    """Its gradient."""
    n = math.prod(x.shape)
    backward_kernel[(cdiv(n, BLOCK),)](grad, x, grads[0], n, BLOCK=BLOCK)


def again(grad: Array, x: Array) -> tuple[Array | None, ...]:
    """The same gradient by torch."""
    import torch

    return differentiate(torch.nn.functional.silu, (x,), grad)


def tile(core: Any, x: Array) -> Array:
    """The kernels."""
    return core(x)


def faster(x: Array) -> bool:
    """Large inputs."""
    return pays(x, float32=(2**21, 2**22), float16=(2**21, 2**22))


# --- implementations for torch ---------------------------------------------------------------------


def vendor(x: Array) -> Array:
    """torch's own kernel."""
    import torch

    return torch.nn.functional.silu(x)


def composite(x: Array) -> Array:
    """In torch calls that every device has, in float32 at least."""
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.sigmoid(wide)).to(x.dtype)


OPERATOR = Operator(
    name="silu",
    function=silu,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={**HALF, **SINGLE},
    vendor=vendor,
    composite=composite,
    core=Core(allocate, forward, backward, ("y",), {"x": "x"}, again),
    tile=tile,
    faster=faster,
    small=2**21,
)
