"""Cross-entropy of logits against class indices, with the options of `torch.nn.functional.cross_entropy`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._again import differentiate
from portkit.runtime.ops._arrays import (
    FLOATS,
    autocasts,
    cast,
    dtype_name,
    empty,
    is_compiling,
    is_tensor,
    move_axis,
    pays,
    require_float,
    shape_text,
    wrong,
)
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._kernel import constexpr, jit, tl
from portkit.runtime.ops._operator import Array, Core, Operator, Reference, Sample, Tolerance
from portkit.runtime.ops._rows import block_for, rows_of

REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """Cross-entropy loss of logits.

    x: (C,), (N, C) or (N, C, d1, ...) logits; float16, bfloat16, float32 or float64.
    target: class indices in [0, C) or ignore_index, int64 (NumPy: any integers), of the shape of `x` without
        C; torch tensors may also be probabilities of the shape of `x`.
    weight: (C,) or None, a factor for each class.
    reduction: "mean" (over the weights of targets that are not ignored; NaN if all are), "sum" or "none".
    label_smoothing: share of the target that is spread over all classes, in [0, 1].
    Returns a scalar, or the shape of `target` for "none"; dtype of `x`.
    Raises UsageError if shapes do not fit, for an unknown reduction, or label_smoothing out of range.
    """
    require_float("cross_entropy", x=x, weight=weight)
    classes = 1 if x.ndim > 1 else 0
    if x.ndim == 0:
        raise wrong("cross_entropy", "x", "at least 1-d", shape_text(x))
    if reduction not in REDUCTIONS:
        raise wrong("cross_entropy", "reduction", '"mean", "sum" or "none"', repr(reduction))
    in_range = 0.0 <= label_smoothing <= 1.0
    if not in_range:
        raise wrong("cross_entropy", "label_smoothing", "between 0 and 1", repr(label_smoothing))
    shape = tuple(n for i, n in enumerate(x.shape) if i != classes)
    if dtype_name(target) in FLOATS:
        known = not isinstance(x, np.ndarray) and target.shape == x.shape
        if not known:
            raise wrong("cross_entropy", "target", "class indices", "floating point")
    else:
        fits = tuple(target.shape) == shape
        if not fits:
            raise wrong("cross_entropy", "target", f"of shape {shape}", shape_text(target))
    if weight is not None:
        fits = tuple(weight.shape) == (x.shape[classes],)
        if not fits:
            raise wrong("cross_entropy", "weight", f"of shape ({x.shape[classes]})", shape_text(weight))
    return call(OPERATOR, x, target, weight, ignore_index, reduction, label_smoothing)


def reference(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Reference:
    """With p = softmax(x): (1 - s) w_t (-log p_t) + s / C sum_c w_c (-log p_c) for each target t that is
    not ignored; "mean" divides the sum by the sum of w_t."""
    rows, index, kept, w = _rows(x, target, weight, ignore_index)
    surprise = _log_sum(rows)[:, None] - rows
    each = np.arange(len(rows))
    loss = (1 - label_smoothing) * w[index] * surprise[each, index]
    if label_smoothing:
        loss = loss + label_smoothing / rows.shape[1] * (surprise * w).sum(axis=1)
    loss = np.where(kept, loss, 0.0)
    if reduction == "none":
        return np.asarray(loss.reshape(np.shape(target)))
    if reduction == "sum":
        return np.asarray(loss.sum())
    with np.errstate(invalid="ignore"):
        return np.asarray(loss.sum() / np.float64((w[index] * kept).sum()))


def reference_backward(
    grad: Any,
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> tuple[Reference | None, ...]:
    """dL/dx = g (p sum_c q_c - q), with q_c = (1 - s) w_t [c = t] + s w_c / C; 0 for ignored targets."""
    rows, index, kept, w = _rows(x, target, weight, ignore_index)
    p = np.exp(rows - _log_sum(rows)[:, None])
    q = np.broadcast_to(label_smoothing / rows.shape[1] * w, rows.shape).copy()
    q[np.arange(len(rows)), index] += (1 - label_smoothing) * w[index]
    g = np.broadcast_to(np.asarray(grad, np.float64), np.shape(target)).reshape(-1)
    total = (w[index] * kept).sum() if reduction == "mean" else 1.0
    scale = np.where(kept, g, 0.0) / (total if total else 1.0)
    dx = scale[:, None] * (p * q.sum(axis=1, keepdims=True) - q)
    if np.ndim(x) == 1:
        return (dx.reshape(-1),)
    return (np.moveaxis(dx.reshape(*np.shape(target), -1), -1, 1),)


def _rows(x: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any, Any, Any]:
    """Logits as (rows, C), index of the class for each (0 where ignored), which are kept, class weights."""
    logits = np.asarray(x, np.float64)
    logits = logits if logits.ndim == 1 else np.moveaxis(logits, 1, -1)
    rows = logits.reshape(-1, logits.shape[-1])
    flat = np.asarray(target).reshape(-1)
    kept = flat != ignore_index
    index = np.where(kept, flat, 0)
    inside = bool(((index >= 0) & (index < rows.shape[1])).all())
    if not inside:
        raise wrong("cross_entropy", "target", f"in [0, {rows.shape[1]}) or ignore_index", "out of range")
    return rows, index, kept, np.ones(rows.shape[1]) if weight is None else np.asarray(weight, np.float64)


def _log_sum(rows: Reference) -> Reference:
    top = rows.max(axis=1)
    return np.asarray(top + np.log(np.exp(rows - top[:, None]).sum(axis=1)))


def samples() -> Iterator[Sample]:
    """Each reduction; ignored and smoothed targets; weights; images; odd, long and masked rows."""
    rng = np.random.default_rng(31)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    def classes(count: int, *shape: int) -> Any:
        return rng.integers(0, count, shape)

    some = classes(37, 11)
    some[[2, 5]] = -100
    for reduction in REDUCTIONS:
        yield Sample(reduction, (normal(16, 64), classes(64, 16)), {"reduction": reduction})
        yield Sample(f"{reduction}-ignored", (normal(11, 37), some), {"reduction": reduction})
        options = {"reduction": reduction, "label_smoothing": 0.1}
        yield Sample(f"{reduction}-smoothed", (normal(11, 37), some), options)
    yield Sample("all-ignored", (normal(3, 8), np.full(3, -100)))
    yield Sample("all-ignored-sum", (normal(3, 8), np.full(3, -100)), {"reduction": "sum"})
    yield Sample("other-ignore-index", (normal(6, 8), np.array([0, 3, 3, 7, 1, 2])), {"ignore_index": 3})
    yield Sample("vector", (normal(9), np.asarray(4)))
    yield Sample("image", (normal(2, 5, 3, 4), classes(5, 2, 3, 4)))
    yield Sample("weighted", (normal(11, 37), some, np.abs(normal(37))), {"label_smoothing": 0.2})
    yield Sample("one-class", (normal(4, 1), np.zeros(4, np.int64)))
    yield Sample("long-row", (normal(3, 5003), classes(5003, 3)))
    yield Sample("transposed", (normal(40, 6).T, classes(40, 6)))
    yield Sample("huge", (normal(4, 33) * 1e3, classes(33, 4)))
    masked = np.where(rng.random((6, 20)) < 0.5, np.float32(-np.inf), normal(6, 20))
    masked[:, 0] = 0.0
    yield Sample("masked", (masked, np.zeros(6, np.int64)))


# --- tile kernels ----------------------------------------------------------------------------------


@jit(noalias=("loss_ptr", "top_ptr", "log_sum_ptr"))
def forward_kernel(
    x_ptr: Any,
    target_ptr: Any,
    loss_ptr: Any,
    top_ptr: Any,
    log_sum_ptr: Any,
    n: Any,
    ignore_index: Any,
    smoothing: Any,
    SMOOTH: constexpr,
    BLOCK: constexpr,
) -> None:
    """One row: the maximum and the sum of exponentials in one pass, rescaled as the maximum grows."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * n
    top = -3.4e38
    total = 0.0
    logits = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
        top = higher
        if SMOOTH:
            logits += tl.sum(tl.where(columns < n, x, 0.0), 0)
    log_sum = tl.log(total)
    target = tl.load(target_ptr + row)
    chosen = tl.load(x_ptr + target, mask=(target >= 0) & (target < n), other=0.0).to(tl.float32)
    loss = log_sum + (top - chosen)
    if SMOOTH:
        loss = (1.0 - smoothing) * loss + smoothing * (log_sum + (top - logits / n))
    tl.store(loss_ptr + row, tl.where(target == ignore_index, 0.0, loss))
    tl.store(top_ptr + row, top)
    tl.store(log_sum_ptr + row, log_sum)


@jit(noalias=("dx_ptr",))
def backward_kernel(
    grad_ptr: Any,
    x_ptr: Any,
    target_ptr: Any,
    top_ptr: Any,
    log_sum_ptr: Any,
    dx_ptr: Any,
    n: Any,
    ignore_index: Any,
    smoothing: Any,
    BLOCK: constexpr,
) -> None:
    """One row: g * (softmax(x) - smoothing / n - (1 - smoothing) * [column = target])."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    top = tl.load(top_ptr + row)
    log_sum = tl.load(log_sum_ptr + row)
    kept = target != ignore_index
    g = tl.where(kept, tl.load(grad_ptr + row).to(tl.float32), 0.0)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        p = tl.exp((x - top) - log_sum) - smoothing / n
        p = p - tl.where(columns == target, 1.0 - smoothing, 0.0)
        tl.store(dx_ptr + row * n + columns, tl.where(kept, g * p, 0.0), mask=columns < n)


def allocate(x: Array, target: Array, *, ignore_index: int, smoothing: float) -> tuple[Array, ...]:
    """Loss, maximum and logarithm of the sum of exp(x - maximum) of each row, float32."""
    loss, top, log_sum = (empty(x, target.shape, "float32") for _ in range(3))
    return loss, top, log_sum


def forward(
    outputs: tuple[Array, ...], x: Array, target: Array, *, ignore_index: int, smoothing: float
) -> None:
    """The loss of each row of (..., C) logits."""
    rows, n = rows_of(x)
    options = {"SMOOTH": smoothing > 0.0, "BLOCK": block_for(n)}
    forward_kernel[(rows,)](x, target, *outputs, n, ignore_index, smoothing, **options)


def backward(
    grads: tuple[Array, ...],
    grad: Array,
    x: Array,
    target: Array,
    top: Array,
    log_sum: Array,
    *,
    ignore_index: int,
    smoothing: float,
) -> None:
    """The gradient of the logits."""
    rows, n = rows_of(x)
    arrays = (grad, x, target, top, log_sum, grads[0])
    backward_kernel[(rows,)](*arrays, n, ignore_index, smoothing, BLOCK=block_for(n))


def again(
    grad: Array, x: Array, target: Array, top: Array, log_sum: Array, *, ignore_index: int, smoothing: float
) -> tuple[Array | None, ...]:
    """The same gradient by torch."""
    import torch

    def forward(x: Array) -> Array:
        rows = x.reshape(-1, x.shape[-1]).float()
        options: dict[str, Any] = {"ignore_index": ignore_index, "label_smoothing": smoothing}
        loss = torch.nn.functional.cross_entropy(rows, target.reshape(-1), reduction="none", **options)
        return loss.reshape(target.shape)

    return differentiate(forward, (x,), grad)


def tile(
    core: Any,
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """The kernels over rows, then the reduction."""
    logits = x if x.ndim == 1 else move_axis(x, 1, -1)
    _check_range(target, logits.shape[-1], ignore_index)
    target = target.astype(np.int64) if isinstance(target, np.ndarray) else target
    loss = core(logits, target, ignore_index=ignore_index, smoothing=float(label_smoothing))
    if reduction != "none":
        loss = loss.sum()
    if reduction == "mean":
        count = (target != ignore_index).sum()
        loss = loss / count if is_tensor(loss) or count else np.float32("nan")
    return cast(np.asarray(loss) if isinstance(x, np.ndarray) else loss, loss_dtype(x))


def loss_dtype(x: Array) -> str:
    """float32 under autocast, as torch's own; else the dtype of the logits."""
    return "float32" if autocasts(x) else dtype_name(x)


def _check_range(target: Array, classes: int, ignore_index: int) -> None:
    """Raise UsageError for a target that is no class (unless compiling, when values are not known)."""
    if is_compiling():
        return
    outside = ((target < 0) | (target >= classes)) & (target != ignore_index)
    expected = f"in [0, {classes}) or ignore_index"
    if bool(outside.any()):
        raise wrong("cross_entropy", "target", expected, "out of range")


def takes(x: Array, target: Array, weight: Array | None = None, *rest: Any, **options: Any) -> bool:
    """Class indices, without weights."""
    whole = isinstance(target, np.ndarray) or dtype_name(target) == "int64"
    return weight is None and whole


def faster(x: Array, *args: Any, **kwargs: Any) -> bool:
    """From mid sizes on: torch writes all log-probabilities."""
    return pays(x, float32=(2**20, 2**20), bfloat16=(2**20, 2**20), float16=(2**20, 2**20))


# --- implementations for torch ---------------------------------------------------------------------


def vendor(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """torch's own kernel."""
    import torch

    return torch.nn.functional.cross_entropy(
        x,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def composite(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """In torch calls that every device has, in float32 at least; probabilities go to torch's own."""
    import torch

    if target.is_floating_point():
        return vendor(x, target, weight, ignore_index, reduction, label_smoothing)
    logits = x.to(torch.promote_types(x.dtype, torch.float32))
    rows = logits if x.ndim == 1 else logits.movedim(1, -1)
    rows = rows - rows.detach().amax(-1, keepdim=True)  # huge logits lose all digits in the difference below
    kept = target != ignore_index
    index = torch.where(kept, target, 0)
    w = rows.new_ones(rows.shape[-1]) if weight is None else weight.to(rows.dtype)
    surprise = torch.logsumexp(rows, -1, keepdim=True) - rows
    loss = (1 - label_smoothing) * w[index] * surprise.gather(-1, index.unsqueeze(-1)).squeeze(-1)
    if label_smoothing:
        loss = loss + label_smoothing / rows.shape[-1] * (surprise * w).sum(-1)
    loss = torch.where(kept, loss, 0.0)
    if reduction == "none":
        return loss.to(x.dtype)
    total = (w[index] * kept).sum() if reduction == "mean" else 1.0
    return (loss.sum() / total).to(x.dtype)


OPERATOR = Operator(
    name="cross_entropy",
    function=cross_entropy,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={
        "float16": Tolerance(4e-3, 2e-3),
        "bfloat16": Tolerance(3e-2, 1.6e-2),
        "float32": Tolerance(4e-6, 4e-6),
        "float64": Tolerance(1e-12, 1e-12),
    },
    vendor=vendor,
    composite=composite,
    core=Core(allocate, forward, backward, ("loss", "top", "log_sum"), {"x": "x"}, again),
    tile=tile,
    faster=faster,
    small=2**20,
    takes=takes,
    autocast="float32",
)
