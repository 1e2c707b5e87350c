"""Matrix product with the shapes of `torch.matmul`: c = a @ b."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import autocasts, dtype_name, is_foreign, require_float, shape_text, wrong
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._operator import Array, Operator, Reference, Sample, Tolerance


def matmul(a: Array, b: Array) -> Array:
    """Matrix product of `a` and `b`.

    a: (..., m, k) or (k,); b: (..., k, n) or (k,); leading axes broadcast.  A vector on the left is a row,
    on the right a column, and its axis is gone from the result.
    Both of one dtype: float16, bfloat16, float32 or float64; 16-bit products are summed in float32.
    Other torch tensors (integers, complex, sparse) go to torch unchanged.
    Raises UsageError if shapes do not fit, or dtypes differ.
    """
    if is_foreign(a) or is_foreign(b):
        return vendor(a, b)
    require_float("matmul", a=a, b=b)
    if a.ndim == 0:
        raise wrong("matmul", "a", "at least 1-d", shape_text(a))
    if b.ndim == 0:
        raise wrong("matmul", "b", "at least 1-d", shape_text(b))
    rows = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if a.shape[-1] != rows:
        raise wrong("matmul", "b", f"of {a.shape[-1]} rows, as a has columns", shape_text(b))
    if not autocasts(a) and not (a.dtype == b.dtype):
        raise wrong("matmul", "b", f"of the dtype of a, {dtype_name(a)}", dtype_name(b))
    return call(OPERATOR, a, b)


def reference(a: Any, b: Any) -> Reference:
    """c_ij = sum_l a_il b_lj."""
    return np.asarray(np.matmul(np.asarray(a, np.float64), np.asarray(b, np.float64)))


def reference_backward(grad: Any, a: Any, b: Any) -> tuple[Reference | None, ...]:
    """da = grad @ b^T, db = a^T @ grad; axes that were broadcast are summed."""
    a, b, g = (np.asarray(x, np.float64) for x in (a, b, grad))
    rows = a[None, :] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b
    g = np.expand_dims(g, -1) if b.ndim == 1 else g
    g = np.expand_dims(g, -2) if a.ndim == 1 else g
    da = _sum_to(g @ np.swapaxes(columns, -1, -2), rows.shape)
    db = _sum_to(np.swapaxes(rows, -1, -2) @ g, columns.shape)
    return (da.reshape(a.shape), db.reshape(b.shape))


def _sum_to(x: Reference, shape: tuple[int, ...]) -> Reference:
    """Sum the axes that broadcasting added or stretched."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return np.asarray(x.sum(axis=stretched, keepdims=True))


def samples() -> Iterator[Sample]:
    """Vectors, matrices, batches, broadcasting; odd, thin and transposed operands."""
    rng = np.random.default_rng(23)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    def pair(id: str, a: Any, b: Any) -> Sample:
        return Sample(id, (a, b), {}, (0, 1))

    yield pair("square", normal(32, 32), normal(32, 32))
    yield pair("odd", normal(37, 29), normal(29, 41))
    yield pair("one", normal(1, 1), normal(1, 1))
    yield pair("row", normal(1, 50), normal(50, 7))
    yield pair("outer", normal(9, 1), normal(1, 11))
    yield pair("long", normal(4, 1000), normal(1000, 5))
    yield pair("vector-vector", normal(20), normal(20))
    yield pair("matrix-vector", normal(6, 20), normal(20))
    yield pair("vector-matrix", normal(20), normal(20, 6))
    yield pair("batch", normal(3, 8, 12), normal(3, 12, 10))
    yield pair("batch-matrix", normal(2, 3, 8, 12), normal(12, 10))
    yield pair("broadcast", normal(2, 1, 5, 7), normal(3, 7, 4))
    yield pair("vector-batch", normal(6), normal(2, 6, 4))
    yield pair("transposed", normal(30, 9).T, normal(21, 30).T)
    yield pair("zeros", np.zeros((4, 6), np.float32), normal(6, 3))


def vendor(a: Array, b: Array) -> Array:
    """torch's own kernel."""
    import torch

    return torch.matmul(a, b)


composite = vendor  # a matrix product is among the plain calls that every device has


OPERATOR = Operator(
    name="matmul",
    function=matmul,
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
    autocast="lower",
)
