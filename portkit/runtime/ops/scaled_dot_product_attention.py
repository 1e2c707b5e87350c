"""Attention: softmax(q k^T * scale + mask) v, in the layouts and with the causal alignments in use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from portkit.runtime.ops._arrays import (
    additive_mask,
    autocasts,
    broadcast,
    contiguous,
    dtype_name,
    move_axis,
    pays,
    require_float,
    shape_text,
    wrong,
)
from portkit.runtime.ops._attention import CORE
from portkit.runtime.ops._dispatch import call
from portkit.runtime.ops._operator import Array, Operator, Reference, Sample, Tolerance

NAME = "scaled_dot_product_attention"
LAYOUTS = ("bhsd", "bshd")
ALIGNMENTS = ("top-left", "bottom-right")


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> Array:
    """Scaled dot-product attention.

    query: (..., heads, Sq, D) in layout "bhsd" (torch), (batch, Sq, heads, D) in "bshd" (flash-attn).
    key, value: the same with Sk for Sq; value may have another last size.  One dtype for all three: float16,
        bfloat16, float32 or float64.
    attn_mask: broadcasts to (..., heads, Sq, Sk) in either layout; boolean (True takes part) or floating
        point (added to the scores).
    dropout_p: share of the attention weights that is dropped, scaled up by the rest; torch tensors only.
    is_causal: query i sees keys up to i; with align="bottom-right" up to i + Sk - Sq, as flash-attn does.
    scale: factor of the scores; by default 1 / sqrt(D).
    enable_gqa: key and value may have fewer heads, a divisor of those of the query.
    Returns the layout of the query with the last size of value.  A query that sees no key gives zeros.
    Raises UsageError if shapes or dtypes do not fit.
    """
    _check(query, key, value, attn_mask, dropout_p, layout, align, enable_gqa)
    options = (attn_mask, dropout_p, is_causal, scale, enable_gqa, layout, align)
    return call(OPERATOR, query, key, value, *options)


def attention_qkvpacked(
    qkv: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Array:
    """Attention of one packed array (batch, S, 3, heads, D), as in flash-attn.

    Returns (batch, S, heads, D); raises UsageError for another shape.
    """
    require_float(NAME, qkv=qkv)
    if not (qkv.ndim == 5 and qkv.shape[2] == 3):
        raise wrong(NAME, "qkv", "(batch, S, 3, heads, D)", shape_text(qkv))
    query, key, value = (qkv[:, :, i] for i in range(3))
    return scaled_dot_product_attention(
        query, key, value, dropout_p=dropout_p, is_causal=is_causal, scale=scale, layout="bshd"
    )


def attention_kvpacked(
    query: Array,
    kv: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Array:
    """Attention of (batch, Sq, heads, D) to packed keys and values (batch, Sk, 2, kv heads, D).

    As in flash-attn, causal masks are aligned at the bottom right, and the number of key heads may divide
    that of the query.  Returns (batch, Sq, heads, D); raises UsageError for other shapes.
    """
    require_float(NAME, query=query, kv=kv)
    if not (kv.ndim == 5 and kv.shape[2] == 2):
        raise wrong(NAME, "kv", "(batch, S, 2, heads, D)", shape_text(kv))
    return scaled_dot_product_attention(
        query,
        kv[:, :, 0],
        kv[:, :, 1],
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=True,
        layout="bshd",
        align="bottom-right",
    )


def _check(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    dropout_p: float,
    layout: str,
    align: str,
    enable_gqa: bool,
) -> None:
    require_float(NAME, query=query, key=key, value=value)
    if layout not in LAYOUTS:
        raise wrong(NAME, "layout", '"bhsd" or "bshd"', repr(layout))
    if align not in ALIGNMENTS:
        raise wrong(NAME, "align", '"top-left" or "bottom-right"', repr(align))
    if not 0.0 <= dropout_p < 1.0:
        raise wrong(NAME, "dropout_p", "at least 0 and below 1", repr(dropout_p))
    known = dropout_p == 0.0 or not isinstance(query, np.ndarray)
    if not known:
        raise wrong(NAME, "dropout_p", "0 for NumPy arrays", repr(dropout_p))
    ndim = query.ndim
    if ndim < 2:
        raise wrong(NAME, "query", "at least 2-d", shape_text(query))
    for name, x in (("key", key), ("value", value)):
        if x.ndim != ndim:
            raise wrong(NAME, name, f"{ndim}-d, as query is", f"{x.ndim}-d")
        if not autocasts(query) and not (x.dtype == query.dtype):
            raise wrong(NAME, name, f"of dtype {dtype_name(query)}", dtype_name(x))
    sequence = 1 if layout == "bshd" and ndim > 2 else -2
    size = query.shape[-1]
    if key.shape[-1] != size:
        raise wrong(NAME, "key", f"of last size {size}, as query is", shape_text(key))
    length = key.shape[sequence]
    if value.shape[sequence] != length:
        raise wrong(NAME, "value", f"of {length} rows, as key is", shape_text(value))
    if enable_gqa and ndim > 2:
        heads = -2 if layout == "bshd" else -3
        count = query.shape[heads]
        if count % key.shape[heads] != 0:
            raise wrong(NAME, "key", f"of a divisor of {count} heads", shape_text(key))
    if attn_mask is not None and dtype_name(attn_mask) != "bool":
        require_float(NAME, attn_mask=attn_mask)


def _bhsd(x: Array, layout: str) -> Array:
    return move_axis(x, 1, -2) if layout == "bshd" and x.ndim > 3 else x


def _restored(y: Array, layout: str) -> Array:
    return contiguous(move_axis(y, -2, 1)) if layout == "bshd" and y.ndim > 3 else y


# --- float64 reference -----------------------------------------------------------------------------


def reference(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> Reference:
    """softmax(q k^T scale + mask) v (Vaswani et al., 2017); rows that are masked throughout give 0."""
    if dropout_p != 0.0:
        raise wrong(NAME, "dropout_p", "0: the reference draws no random numbers", repr(dropout_p))
    q, k, v = (_bhsd(np.asarray(x, np.float64), layout) for x in (query, key, value))
    k, v = _repeat_heads(q, k), _repeat_heads(q, v)
    return np.asarray(_restored(_weights(q, k, attn_mask, is_causal, scale, align) @ v, layout))


def reference_backward(
    grad: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> tuple[Reference | None, ...]:
    """With p the weights: dv = p^T g; ds = p (g v^T - sum(p * g v^T)); dq = scale ds k, dk = scale ds^T q."""
    if dropout_p != 0.0:
        raise wrong(NAME, "dropout_p", "0: the reference draws no random numbers", repr(dropout_p))
    q, k0, v0, g = (_bhsd(np.asarray(x, np.float64), layout) for x in (query, key, value, grad))
    k, v = _repeat_heads(q, k0), _repeat_heads(q, v0)
    p = _weights(q, k, attn_mask, is_causal, scale, align)
    dp = g @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) * _scale(q, scale)
    dk = _sum_heads(np.swapaxes(ds, -1, -2) @ q, k0)
    dv = _sum_heads(np.swapaxes(p, -1, -2) @ g, v0)
    return tuple(_restored(x, layout) for x in (ds @ k, dk, dv))


def _scale(q: Any, scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def _weights(q: Any, k: Any, attn_mask: Any, is_causal: bool, scale: float | None, align: str) -> Reference:
    scores = q @ np.swapaxes(k, -1, -2) * _scale(q, scale)
    if attn_mask is not None:
        mask = np.asarray(attn_mask)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
    if is_causal:
        rows, columns = scores.shape[-2:]
        offset = columns - rows if align == "bottom-right" else 0
        scores = np.where(np.tri(rows, columns, offset, dtype=bool), scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = e.sum(axis=-1, keepdims=True)
    return np.asarray(e / np.where(total == 0.0, 1.0, total))


def _repeat_heads(q: Any, x: Any) -> Any:
    """Key or value heads repeated to those of the query (torch: repeat_interleave)."""
    if x.ndim < 3 or x.shape[-3] in (1, q.shape[-3]):
        return x
    return np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3)


def _sum_heads(x: Any, like: Any) -> Any:
    """The gradient of `_repeat_heads`, and of broadcasting."""
    if x.ndim > 2 and x.shape[-3] != like.shape[-3]:
        x = x.reshape(*x.shape[:-3], like.shape[-3], -1, *x.shape[-2:]).sum(axis=-3)
    stretched = tuple(i for i, n in enumerate(like.shape) if x.shape[i] != n)
    return x.sum(axis=stretched, keepdims=True) if stretched else x


# --- samples ---------------------------------------------------------------------------------------


def samples() -> Iterator[Sample]:
    """Causal with either alignment, masks of both kinds, grouped heads, both layouts, odd and thin shapes."""
    rng = np.random.default_rng(37)

    def qkv(q: tuple[int, ...], k: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple(rng.standard_normal(shape, np.float32) for shape in (q, k, k))

    def case(id: str, arrays: tuple[Any, ...], **kwargs: Any) -> Sample:
        return Sample(id, arrays, kwargs, (0, 1, 2))

    square = ((2, 3, 16, 8), (2, 3, 16, 8))
    yield case("plain", qkv(*square))
    yield case("causal", qkv(*square), is_causal=True)
    yield case("scale", qkv(*square), scale=0.3)
    yield case("odd", qkv((1, 2, 7, 5), (1, 2, 13, 5)))
    yield case("three-d", qkv((4, 9, 8), (4, 11, 8)))
    yield case("causal-cross", qkv((1, 2, 5, 8), (1, 2, 9, 8)), is_causal=True)
    yield case("bottom-right", qkv((1, 2, 5, 8), (1, 2, 9, 8)), is_causal=True, align="bottom-right")
    yield case("bottom-right-tall", qkv((1, 2, 9, 8), (1, 2, 5, 8)), is_causal=True, align="bottom-right")
    yield case("one-query", qkv((1, 2, 1, 8), (1, 2, 9, 8)), is_causal=True, align="bottom-right")
    shown = rng.random((16, 16)) < 0.7
    shown[0] = False
    yield case("boolean-mask", qkv(*square), attn_mask=shown)
    bias = rng.standard_normal((2, 1, 16, 16), np.float32)
    yield case("float-mask", qkv(*square), attn_mask=bias)
    yield case("grouped", qkv((2, 6, 8, 8), (2, 2, 8, 8)), enable_gqa=True, is_causal=True)
    yield case("bshd", qkv((2, 16, 3, 8), (2, 16, 3, 8)), layout="bshd")
    flash: dict[str, Any] = {"layout": "bshd", "align": "bottom-right", "enable_gqa": True, "is_causal": True}
    yield case("flash", qkv((2, 6, 4, 8), (2, 10, 2, 8)), **flash)
    yield case("bshd-three-d", qkv((2, 16, 8), (2, 12, 8)), layout="bshd")
    yield case("one-key", qkv((1, 1, 3, 4), (1, 1, 1, 4)))


# --- tile kernels ----------------------------------------------------------------------------------


def tile(
    core: Any,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> Array:
    """The kernels, with batch and heads as one axis."""
    q, k, v = (_bhsd(x, layout) for x in (query, key, value))
    rows, columns = q.shape[-2], k.shape[-2]
    mask = None if attn_mask is None else _stacked_mask(attn_mask, (*q.shape[:-1], columns))
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
    offset = columns - rows if align == "bottom-right" else 0
    y = core(*flat, mask, causal=bool(is_causal), offset=offset, scale=float(_scale(q, scale)))
    return _restored(y.reshape((*q.shape[:-1], v.shape[-1])), layout)


def _stacked_mask(mask: Array, shape: tuple[int, ...]) -> Array:
    """The mask as numbers to add, (1, Sq, Sk) if it is the same for all heads, else (heads, Sq, Sk)."""
    if dtype_name(mask) == "bool":
        mask = additive_mask(mask)
    if math.prod(mask.shape[:-2]) == 1:
        shape = shape[-2:]
        mask = mask.reshape(mask.shape[-2:])
    return broadcast(mask, shape).reshape(-1, *shape[-2:])


def takes(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> bool:
    """No dropout, no gradient of a mask, and batches and heads that do not broadcast."""
    if dropout_p != 0.0 or query.ndim > 4 or getattr(attn_mask, "requires_grad", False):
        return False
    heads = 2 if layout == "bshd" else 1
    if query.ndim < 4:
        heads = 0
    elif not query.shape[0] == key.shape[0] == value.shape[0]:
        return False
    same = query.ndim == 2 or query.shape[heads] == key.shape[heads]
    return same or enable_gqa


def faster(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *rest: Any,
) -> bool:
    """float16, which torch computes slowly; causal scores, of which torch computes more than it needs."""
    size = query.shape[-1]
    if not is_causal or attn_mask is not None or size < 64 or size & (size - 1):
        return pays(query, float16=(2**16, 2**16))
    return pays(query, float32=(2**18, 2**19), bfloat16=(2**18, math.inf), float16=(2**16, 2**16))


# --- implementations for torch ---------------------------------------------------------------------


def vendor(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> Array:
    """torch's own kernel."""
    import torch

    q, k, v = (_bhsd(x, layout) for x in (query, key, value))
    mask, causal = _mask(q, k, attn_mask, is_causal, align)
    gqa = enable_gqa and q.ndim > 2 and q.shape[-3] != k.shape[-3]
    options: dict[str, Any] = {"dropout_p": dropout_p, "is_causal": causal, "scale": scale, "enable_gqa": gqa}
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)
    return _restored(y, layout)


def _mask(
    q: Array, k: Array, attn_mask: Array | None, is_causal: bool, align: str
) -> tuple[Array | None, bool]:
    """The mask, and whether torch's own causal mask (top left) applies: one of the two, never both."""
    import torch

    rows, columns = q.shape[-2], k.shape[-2]
    offset = columns - rows if align == "bottom-right" else 0
    if not is_causal or (rows == 1 and offset >= 0 and align == "bottom-right"):
        return attn_mask, False  # one query at the end sees every key
    if attn_mask is None and offset == 0:
        return None, True
    causal = torch.ones(rows, columns, dtype=torch.bool, device=q.device).tril(offset)
    if attn_mask is None:
        return causal, False
    if attn_mask.dtype == torch.bool:
        return attn_mask & causal, False
    return attn_mask.masked_fill(~causal, -math.inf), False


def composite(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    layout: str = "bhsd",
    align: str = "top-left",
) -> Array:
    """In torch calls that every device has, in float32 at least."""
    import torch

    dtype = torch.get_autocast_dtype(query.device.type) if autocasts(query) else query.dtype
    q, k, v = (_bhsd(x.to(dtype), layout) for x in (query, key, value))
    wide = torch.promote_types(q.dtype, torch.float32)
    if q.ndim > 2 and q.shape[-3] != k.shape[-3] and enable_gqa:
        groups = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(groups, -3), v.repeat_interleave(groups, -3)
    mask, causal = _mask(q, k, attn_mask, is_causal, align)
    scores = (q.to(wide) @ k.to(wide).transpose(-1, -2)) * _scale(q, scale)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    top = scores.detach().amax(-1, keepdim=True)
    e = torch.exp(scores - top.masked_fill(top == -math.inf, 0.0))
    total = e.sum(-1, keepdim=True)
    p = e / total.masked_fill(total == 0.0, 1.0)
    p = torch.dropout(p, dropout_p, train=dropout_p > 0.0)
    return _restored((p @ v.to(p.dtype)).to(dtype), layout)


OPERATOR = Operator(
    name=NAME,
    function=scaled_dot_product_attention,
    reference=reference,
    reference_backward=reference_backward,
    samples=samples,
    tolerance={
        "float16": Tolerance(4e-3, 4e-3),
        "bfloat16": Tolerance(3e-2, 3e-2),
        "float32": Tolerance(5e-6, 1e-5),
        "float64": Tolerance(1e-12, 1e-12),
    },
    vendor=vendor,
    composite=composite,
    core=CORE,
    tile=tile,
    takes=takes,
    faster=faster,
    small=2**16,
    autocast="lower",
)
