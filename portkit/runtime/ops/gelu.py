"""GELU, exact or by tanh: y = x * Phi(x)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._again import differentiate
from portkit.runtime.ops._arrays import empty, pays, require_float, wrong
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._kernel import cdiv, constexpr, jit, tl
from portkit.runtime.ops._operator import HALF, Array, Core, Operator, Reference, Sample, Tolerance

SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715
BLOCK = 4096  # elements of one program


def gelu(x: Array, approximate: str = "none") -> Array:
    """Gaussian error linear unit of every element.

    x: any shape, float16, bfloat16, float32 or float64.
    approximate: "none" (x * Phi(x), by erf) or "tanh" (the formula of GPT-2).
    Returns the shape and dtype of `x`.  Raises UsageError for another `approximate` or other dtypes.
    """
    require_float("gelu", x=x)
    if approximate not in ("none", "tanh"):
        raise wrong("gelu", "approximate", '"none" or "tanh"', repr(approximate))
    return call(OPERATOR, x, approximate)


def reference(x: Any, approximate: str = "none") -> Reference:
    """x * (1 + erf(x / sqrt 2)) / 2, or x * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
    (Hendrycks and Gimpel, 2016)."""
    x = np.asarray(x, np.float64)
    if approximate == "none":
        return np.asarray(0.5 * x * _erfc(-x / math.sqrt(2)))
    return np.asarray(0.5 * x * (1 + np.tanh(SCALE * (x + CUBIC * x**3))))


def reference_backward(grad: Any, x: Any, approximate: str = "none") -> tuple[Reference | None, ...]:
    """Phi(x) + x phi(x); with t the tanh: (1 + t) / 2 + x (1 - t^2) sqrt(2/pi) (1 + 3·0.044715 x^2) / 2."""
    x, grad = np.asarray(x, np.float64), np.asarray(grad, np.float64)
    if approximate == "none":
        density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return (grad * (0.5 * _erfc(-x / math.sqrt(2)) + x * density),)
    t = np.tanh(SCALE * (x + CUBIC * x**3))
    return (grad * 0.5 * (1 + t + x * (1 - t * t) * SCALE * (1 + 3 * CUBIC * x * x)),)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def samples() -> Iterator[Sample]:
    """Both formulas; ordinary, tiny, large and strided inputs."""
    rng = np.random.default_rng(17)
    for form in ("none", "tanh"):
        yield Sample(f"{form}-matrix", (rng.standard_normal((8, 65), np.float32), form))
        yield Sample(f"{form}-wide", (rng.standard_normal((3, 1000), np.float32) * 4, form))
        yield Sample(f"{form}-four-d", (rng.standard_normal((2, 3, 4, 5), np.float32), form))
        yield Sample(f"{form}-transposed", (rng.standard_normal((30, 7), np.float32).T, form))
        edges = np.array([0.0, -0.0, 1e-6, -1e-6, 5.0, -5.0, 12.0, -12.0, 100.0, -100.0], np.float32)
        yield Sample(f"{form}-edges", (edges, form))
        yield Sample(f"{form}-one", (np.array([0.5], np.float32), form))


# --- tile kernels ----------------------------------------------------------------------------------


@jit(noalias=("y_ptr",))
def forward_kernel(x_ptr: Any, y_ptr: Any, n: Any, TANH: constexpr, BLOCK: constexpr) -> None:
    """x * Phi(x), where (1 + tanh z) / 2 is sigmoid(2 z)."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    if TANH:
        y = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    else:
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + at, y, mask=at < n)


@jit(noalias=("dx_ptr",))
def backward_kernel(
    grad_ptr: Any, x_ptr: Any, dx_ptr: Any, n: Any, TANH: constexpr, BLOCK: constexpr
) -> None:
    """g * (Phi(x) + x phi(x)), or with s = sigmoid(2 z): g * (s + 2 x s (1 - s) z')."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    g = tl.load(grad_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    if TANH:
        s = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        slope = s + x * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)
    else:
        density = tl.exp(-0.5 * x * x) * 0.3989422804014327
        slope = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * density
    tl.store(dx_ptr + at, g * slope, mask=at < n)


def allocate(x: Array, *, tanh: bool) -> tuple[Array, ...]:
    """y, like x."""
    return (empty(x, x.shape),)


def forward(outputs: tuple[Array, ...], x: Array, *, tanh: bool) -> None:
    """Every element."""
    n = math.prod(x.shape)
    forward_kernel[(cdiv(n, BLOCK),)](x, outputs[0], n, TANH=tanh, BLOCK=BLOCK)


def backward(grads: tuple[Array, ...], grad: Array, x: Array, *, tanh: bool) -> None:
    """Its gradient."""
    n = math.prod(x.shape)
    backward_kernel[(cdiv(n, BLOCK),)](grad, x, grads[0], n, TANH=tanh, BLOCK=BLOCK)


def again(grad: Array, x: Array, *, tanh: bool) -> tuple[Array | None, ...]:
    """The same gradient by torch."""
    import torch

    form = "tanh" if tanh else "none"
    return differentiate(lambda x: torch.nn.functional.gelu(x, approximate=form), (x,), grad)


def tile(core: Any, x: Array, approximate: str = "none") -> Array:
    """The kernels."""
    return core(x, tanh=approximate == "tanh")


def faster(x: Array, approximate: str = "none") -> bool:
    """The form by tanh, which torch computes slowly; its erf is faster than ours."""
    if approximate == "none":
        return pays(x)
    return pays(x, float32=(2**16, 2**17), bfloat16=(2**16, 2**17), float16=(2**16, 2**17))


# --- implementations for torch ---------------------------------------------------------------------


def vendor(x: Array, approximate: str = "none") -> Array:
    """torch's own kernel."""
    import torch

    return torch.nn.functional.gelu(x, approximate=approximate)


def composite(x: Array, approximate: str = "none") -> Array:
    """In torch calls that every device has, in float32 at least."""
    import torch

    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if approximate == "none":
        return (0.5 * wide * torch.erfc(wide * -math.sqrt(0.5))).to(x.dtype)
    return (0.5 * wide * (1 + torch.tanh(SCALE * (wide + CUBIC * wide**3)))).to(x.dtype)


OPERATOR = Operator(
    name="gelu",
    function=gelu,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={**HALF, "float32": Tolerance(2e-6, 4e-6), "float64": Tolerance(1e-12, 1e-12)},
    vendor=vendor,
    composite=composite,
    core=Core(allocate, forward, backward, ("y",), {"x": "x"}, again),
    tile=tile,
    faster=faster,
    small=2**16,
)
