"""Matrix product with the shapes of `torch.matmul`: c = a @ b."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import (
    autocasts,
    broadcast,
    common_shape,
    contiguous,
    dtype_name,
    empty,
    is_foreign,
    pays,
    require_float,
    shape_text,
    steps,
    transposed,
    wrong,
)
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._kernel import cdiv, constexpr, jit, tl
from portkit.runtime.ops._operator import Array, Core, Operator, Reference, Sample, Tolerance
from portkit.runtime.ops._rows import sum_into

BLOCKS = (256, 128, 64)  # rows, columns and inner sizes of one step, best first


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
    if any(x != y and 1 not in (x, y) for x, y in zip(a.shape[-3::-1], b.shape[-3::-1], strict=False)):
        raise wrong("matmul", "b", f"of leading axes that broadcast with {shape_text(a)}", shape_text(b))
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


# --- tile kernels ----------------------------------------------------------------------------------


@jit(noalias=("c_ptr",))
def product_kernel(
    a_ptr: Any,
    b_ptr: Any,
    bias_ptr: Any,
    c_ptr: Any,
    m: Any,
    n: Any,
    k: Any,
    a_batch: Any,
    a_row: Any,
    a_column: Any,
    b_batch: Any,
    b_row: Any,
    b_column: Any,
    ROWS: constexpr,
    COLUMNS: constexpr,
    INNER: constexpr,
) -> None:
    """One block of one product of the batch; operands of any strides, c dense."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    batch = tl.program_id(2).to(tl.int64)
    a_ptr += batch * a_batch
    b_ptr += batch * b_batch
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, INNER):
        inner = start + tl.arange(0, INNER)
        a_inside = (rows[:, None] < m) & (inner[None, :] < k)
        a = tl.load(a_ptr + rows[:, None] * a_row + inner[None, :] * a_column, mask=a_inside, other=0.0)
        b_inside = (inner[:, None] < k) & (columns[None, :] < n)
        b = tl.load(b_ptr + inner[:, None] * b_row + columns[None, :] * b_column, mask=b_inside, other=0.0)
        total = tl.dot(a, b, total)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + batch * m * n + rows[:, None] * n + columns[None, :], total, mask=inside)


def product_into(c: Array, a: Array, b: Array, bias: Array | None = None) -> None:
    """c = a @ b + bias for (batch, m, k) and (batch, k, n) of any strides, and a dense c."""
    a, b = _by_rows(a), _by_rows(b)
    count, m, k = a.shape
    n = b.shape[2]
    rows, columns, inner = (block_of(size) for size in (m, n, k))
    grid = (cdiv(m, rows), cdiv(n, columns), count)
    blocks = {"ROWS": rows, "COLUMNS": columns, "INNER": inner}
    product_kernel[grid](a, b, bias, c, m, n, k, *steps(a), *steps(b), **blocks)


def _by_rows(x: Array) -> Array:
    """The operand, copied if it is not dense along its rows: that costs less than reading it so."""
    return x if steps(x)[2] == 1 else contiguous(x)


def block_of(size: int) -> int:
    """The largest block that pads the size by little more than the smallest does."""
    least = cdiv(size, BLOCKS[-1]) * BLOCKS[-1]
    return next(block for block in BLOCKS if cdiv(size, block) * block <= 1.15 * least)


def allocate(a: Array, b: Array, bias: Array | None) -> tuple[Array, ...]:
    """c: (batch, m, n), dense."""
    return (empty(a, (a.shape[0], a.shape[1], b.shape[2])),)


def forward(outputs: tuple[Array, ...], a: Array, b: Array, bias: Array | None) -> None:
    """(batch, m, k) times (batch, k, n), plus a row (n,)."""
    product_into(outputs[0], a, b, bias)


def backward(grads: tuple[Array | None, ...], grad: Array, a: Array, b: Array, bias: Array | None) -> None:
    """da = grad @ b^T, db = a^T @ grad; the row gets the sum."""
    if grads[0] is not None:
        product_into(grads[0], grad, transposed(b))
    if grads[1] is not None:
        product_into(grads[1], transposed(a), grad)
    if grads[2] is not None:
        sum_into(grads[2], grad.reshape(-1, grad.shape[-1]))


def again(grad: Array, a: Array, b: Array, bias: Array | None) -> tuple[Array | None, ...]:
    """The same products by torch."""
    row = None if bias is None else grad.sum((0, 1))
    return grad @ transposed(b), transposed(a) @ grad, row


CORE = Core(allocate, forward, backward, ("c",), {"a": "a", "b": "b", "bias": "bias"}, again, strided=True)


def tile(core: Any, a: Array, b: Array) -> Array:
    """The kernel over a batch of matrices: vectors become matrices, and leading axes broadcast."""
    rows = a[None, :] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b
    batch = common_shape(tuple(rows.shape[:-2]), tuple(columns.shape[:-2]))
    sizes = (rows.shape[-2], columns.shape[-1])
    if not batch or columns.ndim == 2:  # one product: leading axes of a are more rows
        flat = rows.reshape(1, -1, rows.shape[-1])
        c = core(flat, columns.reshape(1, *columns.shape[-2:]), None)
    else:
        c = core(_stacked(rows, batch), _stacked(columns, batch), None)
    kept = (*(sizes[:1] if a.ndim > 1 else ()), *(sizes[1:] if b.ndim > 1 else ()))
    return c.reshape((*batch, *kept))


def faster(a: Array, b: Array) -> bool:
    """Matrices of float16, which torch multiplies slowly on a CPU without instructions for it."""
    if min(a.ndim, b.ndim) < 2 or min(a.shape[-2], b.shape[-1]) < 16:
        return False
    return pays(a, float16=(2**12, 2**12))


def _stacked(x: Array, batch: tuple[int, ...]) -> Array:
    return broadcast(x, (*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:])


# --- implementations for torch ---------------------------------------------------------------------


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
    core=CORE,
    tile=tile,
    faster=faster,
    small=2**12,
    autocast="lower",
)
