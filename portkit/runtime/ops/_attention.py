"""Tile kernels of attention, which never hold more than one block of the scores (Dao et al., 2022)."""

from __future__ import annotations

from typing import Any

from portkit.runtime.ops._again import differentiate
from portkit.runtime.ops._arrays import empty
from portkit.runtime.ops._kernel import cdiv, constexpr, jit, next_power_of_2, tl
from portkit.runtime.ops._operator import Array, Core

QUERIES, KEYS = 64, 64  # rows and columns of a block of scores


@jit
def _matrix(pointer: Any, rows: Any, count: Any, size: Any, SIZE: constexpr) -> Any:
    """Rows of a dense (count, size) matrix as float32; 0 outside."""
    columns = tl.arange(0, SIZE)
    inside = (rows[:, None] < count) & (columns[None, :] < size)
    at = pointer + rows[:, None] * size + columns[None, :]
    return tl.load(at, mask=inside, other=0.0).to(tl.float32)


@jit
def _keep(pointer: Any, values: Any, rows: Any, count: Any, size: Any, SIZE: constexpr) -> None:
    """Store rows of a dense (count, size) matrix."""
    columns = tl.arange(0, SIZE)
    inside = (rows[:, None] < count) & (columns[None, :] < size)
    tl.store(pointer + rows[:, None] * size + columns[None, :], values, mask=inside)


@jit
def _masked(
    products: Any,
    mask_ptr: Any,
    query: Any,
    key: Any,
    query_count: Any,
    key_count: Any,
    scale: Any,
    offset: Any,
    CAUSAL: constexpr,
) -> Any:
    """Products * scale + mask; -inf where a query does not see a key.  `query` and `key` number the axes."""
    seen = (query < query_count) & (key < key_count)
    scores = products * scale
    if mask_ptr is not None:
        at = mask_ptr + query.to(tl.int64) * key_count + key
        scores += tl.load(at, mask=seen, other=0.0).to(tl.float32)
    if CAUSAL:
        seen = seen & (key <= query + offset)
    return tl.where(seen, scores, -float("inf"))


@jit(noalias=("y_ptr", "log_sum_ptr"))
def forward_kernel(
    q_ptr: Any,
    k_ptr: Any,
    v_ptr: Any,
    mask_ptr: Any,
    y_ptr: Any,
    log_sum_ptr: Any,
    query_count: Any,
    key_count: Any,
    size: Any,
    value_size: Any,
    mask_step: Any,
    scale: Any,
    offset: Any,
    GROUPS: constexpr,
    CAUSAL: constexpr,
    SIZE: constexpr,
    VALUE_SIZE: constexpr,
    QUERIES: constexpr,
    KEYS: constexpr,
) -> None:
    """A block of queries of one head, against all its keys."""
    head = tl.program_id(1).to(tl.int64)
    queries = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    k_ptr += head // GROUPS * key_count * size
    v_ptr += head // GROUPS * key_count * value_size
    if mask_ptr is not None:
        mask_ptr += head * mask_step
    q = _matrix(q_ptr + head * query_count * size, queries, query_count, size, SIZE)
    top = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    y = tl.zeros((QUERIES, VALUE_SIZE), tl.float32)
    end = key_count
    if CAUSAL:
        end = tl.minimum(key_count, tl.program_id(0) * QUERIES + QUERIES + offset)
    for start in tl.range(0, end, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = _matrix(k_ptr, keys, key_count, size, SIZE)
        s = tl.dot(q, tl.trans(k))
        q_at, k_at = queries[:, None], keys[None, :]
        s = _masked(s, mask_ptr, q_at, k_at, query_count, key_count, scale, offset, CAUSAL)
        higher = tl.maximum(top, tl.max(s, 1))
        finite = tl.where(higher == -float("inf"), 0.0, higher)
        p = tl.exp(s - finite[:, None])
        shrink = tl.exp(top - finite)
        total = total * shrink + tl.sum(p, 1)
        v = _matrix(v_ptr, keys, key_count, value_size, VALUE_SIZE)
        y = tl.dot(p, v, y * shrink[:, None])
        top = higher
    unseen = total == 0.0
    y = y / tl.where(unseen, 1.0, total)[:, None]
    _keep(y_ptr + head * query_count * value_size, y, queries, query_count, value_size, VALUE_SIZE)
    # Rows that see nothing have weights exp(score - inf) = 0 in the backward kernels.
    log_sum = tl.where(unseen, float("inf"), top + tl.log(tl.where(unseen, 1.0, total)))
    tl.store(log_sum_ptr + head * query_count + queries, log_sum, mask=queries < query_count)


@jit(noalias=("dq_ptr",))
def query_kernel(
    grad_ptr: Any,
    q_ptr: Any,
    k_ptr: Any,
    v_ptr: Any,
    mask_ptr: Any,
    y_ptr: Any,
    log_sum_ptr: Any,
    dq_ptr: Any,
    query_count: Any,
    key_count: Any,
    size: Any,
    value_size: Any,
    mask_step: Any,
    scale: Any,
    offset: Any,
    GROUPS: constexpr,
    CAUSAL: constexpr,
    SIZE: constexpr,
    VALUE_SIZE: constexpr,
    QUERIES: constexpr,
    KEYS: constexpr,
) -> None:
    """The gradient of a block of queries of one head."""
    head = tl.program_id(1).to(tl.int64)
    queries = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    k_ptr += head // GROUPS * key_count * size
    v_ptr += head // GROUPS * key_count * value_size
    if mask_ptr is not None:
        mask_ptr += head * mask_step
    q = _matrix(q_ptr + head * query_count * size, queries, query_count, size, SIZE)
    values = head * query_count * value_size
    g = _matrix(grad_ptr + values, queries, query_count, value_size, VALUE_SIZE)
    y = _matrix(y_ptr + values, queries, query_count, value_size, VALUE_SIZE)
    at = log_sum_ptr + head * query_count + queries
    log_sum = tl.load(at, mask=queries < query_count, other=float("inf"))
    inner = tl.sum(g * y, 1)
    dq = tl.zeros((QUERIES, SIZE), tl.float32)
    end = key_count
    if CAUSAL:
        end = tl.minimum(key_count, tl.program_id(0) * QUERIES + QUERIES + offset)
    for start in tl.range(0, end, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = _matrix(k_ptr, keys, key_count, size, SIZE)
        v = _matrix(v_ptr, keys, key_count, value_size, VALUE_SIZE)
        s = tl.dot(q, tl.trans(k))
        q_at, k_at = queries[:, None], keys[None, :]
        s = _masked(s, mask_ptr, q_at, k_at, query_count, key_count, scale, offset, CAUSAL)
        p = tl.exp(s - log_sum[:, None])
        ds = p * (tl.dot(g, tl.trans(v)) - inner[:, None])
        dq = tl.dot(ds, k, dq)
    _keep(dq_ptr + head * query_count * size, dq * scale, queries, query_count, size, SIZE)


@jit(noalias=("dk_ptr", "dv_ptr"))
def key_kernel(
    grad_ptr: Any,
    q_ptr: Any,
    k_ptr: Any,
    v_ptr: Any,
    mask_ptr: Any,
    y_ptr: Any,
    log_sum_ptr: Any,
    dk_ptr: Any,
    dv_ptr: Any,
    query_count: Any,
    key_count: Any,
    size: Any,
    value_size: Any,
    mask_step: Any,
    scale: Any,
    offset: Any,
    GROUPS: constexpr,
    CAUSAL: constexpr,
    SIZE: constexpr,
    VALUE_SIZE: constexpr,
    QUERIES: constexpr,
    KEYS: constexpr,
) -> None:
    """The gradients of a block of keys and values of one head, from all query heads that share it."""
    shared = tl.program_id(1).to(tl.int64)
    keys = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    k = _matrix(k_ptr + shared * key_count * size, keys, key_count, size, SIZE)
    v = _matrix(v_ptr + shared * key_count * value_size, keys, key_count, value_size, VALUE_SIZE)
    dk = tl.zeros((KEYS, SIZE), tl.float32)
    dv = tl.zeros((KEYS, VALUE_SIZE), tl.float32)
    first = 0
    if CAUSAL:  # queries before the first key of the block see none of it
        first = tl.maximum(0, tl.program_id(0) * KEYS - offset) // QUERIES * QUERIES
    for group in tl.range(0, GROUPS):
        head = shared * GROUPS + group
        mask = mask_ptr
        if mask_ptr is not None:
            mask = mask_ptr + head * mask_step
        for start in tl.range(first, query_count, QUERIES):
            queries = start + tl.arange(0, QUERIES)
            q = _matrix(q_ptr + head * query_count * size, queries, query_count, size, SIZE)
            values = head * query_count * value_size
            g = _matrix(grad_ptr + values, queries, query_count, value_size, VALUE_SIZE)
            y = _matrix(y_ptr + values, queries, query_count, value_size, VALUE_SIZE)
            at = log_sum_ptr + head * query_count + queries
            log_sum = tl.load(at, mask=queries < query_count, other=float("inf"))
            s = tl.dot(k, tl.trans(q))  # keys are the rows here: p and ds are used as they come
            q_at, k_at = queries[None, :], keys[:, None]
            s = _masked(s, mask, q_at, k_at, query_count, key_count, scale, offset, CAUSAL)
            p = tl.exp(s - log_sum[None, :])
            dv = tl.dot(p, g, dv)
            ds = p * (tl.dot(v, tl.trans(g)) - tl.sum(g * y, 1)[None, :])
            dk = tl.dot(ds, q, dk)
    _keep(dk_ptr + shared * key_count * size, dk * scale, keys, key_count, size, SIZE)
    _keep(dv_ptr + shared * key_count * value_size, dv, keys, key_count, value_size, VALUE_SIZE)


def allocate(
    q: Array, k: Array, v: Array, mask: Array | None, *, causal: bool, offset: int, scale: float
) -> tuple[Array, ...]:
    """y (heads, Sq, Dv), like q; the logarithm of the sum of exp(score) of each row, float32."""
    heads, rows, _ = q.shape
    return empty(q, (heads, rows, v.shape[2])), empty(q, (heads, rows), "float32")


def _sizes(q: Array, k: Array, v: Array, mask: Array | None) -> tuple[int, ...]:
    step = 0 if mask is None or mask.shape[0] == 1 else q.shape[1] * k.shape[1]
    return q.shape[1], k.shape[1], q.shape[2], v.shape[2], step


def _blocks(q: Array, k: Array, v: Array, causal: bool) -> dict[str, Any]:
    return {
        "GROUPS": q.shape[0] // k.shape[0],
        "CAUSAL": causal,
        "SIZE": max(16, next_power_of_2(q.shape[2])),
        "VALUE_SIZE": max(16, next_power_of_2(v.shape[2])),
        "QUERIES": QUERIES,
        "KEYS": KEYS,
    }


def forward(
    outputs: tuple[Array, ...],
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    causal: bool,
    offset: int,
    scale: float,
) -> None:
    """q: (heads, Sq, D); k, v: (kv heads, Sk, D or Dv); mask: (1 or heads, Sq, Sk), added to the scores."""
    grid = (cdiv(q.shape[1], QUERIES), q.shape[0])
    numbers = (*_sizes(q, k, v, mask), scale, offset)
    forward_kernel[grid](q, k, v, mask, *outputs, *numbers, **_blocks(q, k, v, causal))


def backward(
    grads: tuple[Array | None, ...],
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    y: Array,
    log_sum: Array,
    *,
    causal: bool,
    offset: int,
    scale: float,
) -> None:
    """Gradients of q, k and v; scores are computed again."""
    dq, dk, dv = grads
    arrays = (grad, q, k, v, mask, y, log_sum)
    numbers = (*_sizes(q, k, v, mask), scale, offset)
    blocks = _blocks(q, k, v, causal)
    if dq is not None:
        query_kernel[(cdiv(q.shape[1], QUERIES), q.shape[0])](*arrays, dq, *numbers, **blocks)
    if dk is None and dv is None:
        return
    dk = empty(k, k.shape) if dk is None else dk
    dv = empty(v, v.shape) if dv is None else dv
    key_kernel[(cdiv(k.shape[1], KEYS), k.shape[0])](*arrays, dk, dv, *numbers, **blocks)


def again(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    y: Array,
    log_sum: Array,
    *,
    causal: bool,
    offset: int,
    scale: float,
) -> tuple[Array | None, ...]:
    """The same gradients by torch, in float32 and from whole scores."""
    import torch

    def forward(q: Array, k: Array, v: Array) -> Array:
        scores = (q.float() @ k.float().transpose(-1, -2)) * scale
        scores = scores if mask is None else scores + mask
        if causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(offset)
            scores = scores.masked_fill(~seen, -torch.inf)
        shown = (scores > -torch.inf).any(-1, keepdim=True)  # a row without any key gives 0
        p = torch.softmax(scores.masked_fill(~shown, 0.0), -1) * shown
        return (p @ v.float()).to(q.dtype)

    return differentiate(forward, (q, k, v), grad)


CORE = Core(allocate, forward, backward, ("y", "log_sum"), {"q": "q", "k": "k", "v": "v"}, again)
