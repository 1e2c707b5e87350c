"""The few things that NumPy arrays and torch tensors spell differently, and the checks of arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from portkit.errors import UsageError
from portkit.runtime.ops._operator import Array

FLOATS = ("float16", "bfloat16", "float32", "float64")


def is_tensor(x: object) -> bool:
    """Whether `x` is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_compiling() -> bool:
    """Whether torch.compile or torch.jit.trace records the calls, rather than their values."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling() or torch.jit.is_tracing())


def is_foreign(x: object) -> bool:
    """Whether `x` is a torch tensor that only torch knows: integers, complex, 8-bit, sparse or nested."""
    if not is_tensor(x):
        return False
    torch = sys.modules["torch"]
    assert isinstance(x, torch.Tensor)
    return x.layout != torch.strided or x.is_nested or dtype_name(x) not in FLOATS


_NAMES: dict[Any, str] = {}  # by dtype; made once each, as torch spells them slowly


def dtype_name(x: Array) -> str:
    """The name of the dtype, the same for both libraries: "float32", "bool", "int64"."""
    dtype = x.dtype
    name = _NAMES.get(dtype)
    if name is None:
        name = _NAMES[dtype] = str(dtype).removeprefix("torch.")
    return name


def dtype_text(dtype: Any) -> str:
    """The name of a dtype itself: torch's, NumPy's or a string."""
    text = str(dtype).removeprefix("torch.")
    return text if text in FLOATS else str(np.dtype(dtype))


def empty(like: Array, shape: Sequence[int], dtype: str | None = None) -> Array:
    """An uninitialised contiguous array on the device of `like` (and of its dtype, if none is named)."""
    if isinstance(like, np.ndarray):
        return np.empty(tuple(shape), like.dtype if dtype is None else np.dtype(dtype))
    torch: Any = sys.modules["torch"]
    return torch.empty(
        shape, dtype=like.dtype if dtype is None else getattr(torch, dtype), device=like.device
    )


def contiguous(x: Array) -> Array:
    """`x` itself, or a copy in C order."""
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x.contiguous()


def steps(x: Array) -> tuple[int, ...]:
    """Strides in elements."""
    if isinstance(x, np.ndarray):
        return tuple(s // x.itemsize for s in x.strides)
    return tuple(x.stride())


def transposed(x: Array) -> Array:
    """A view with the last two axes exchanged."""
    return np.swapaxes(x, -1, -2) if isinstance(x, np.ndarray) else x.transpose(-1, -2)


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    """A view of another shape, whose new axes have stride 0."""
    return np.broadcast_to(x, shape) if isinstance(x, np.ndarray) else x.expand(shape)


def common_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to; in plain Python, which torch.compile sees through."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(y if x == 1 else x for x, y in pairs)


def additive_mask(mask: Array) -> Array:
    """0 where a boolean mask is true, -inf where it is not; float32."""
    if isinstance(mask, np.ndarray):
        return np.where(mask, np.float32(0), np.float32(-np.inf))
    torch: Any = sys.modules["torch"]
    return torch.zeros_like(mask, dtype=torch.float32).masked_fill(~mask, -torch.inf)


def pays(x: Array, **sizes: tuple[float, float]) -> bool:
    """Whether a call is large enough for tile kernels to beat torch's own on a CPU; NumPy has none to beat.

    `sizes` holds, by dtype, the number of elements from which they do: without, and with gradients.
    """
    if isinstance(x, np.ndarray):
        return True
    bounds = sizes.get(dtype_name(x))
    training = x.requires_grad and sys.modules["torch"].is_grad_enabled()
    return bounds is not None and x.numel() >= bounds[training]


def move_axis(x: Array, source: int, target: int) -> Array:
    """A view with one axis moved."""
    if source in (target, target % x.ndim):
        return x
    return np.moveaxis(x, source, target) if isinstance(x, np.ndarray) else x.movedim(source, target)


def cast(x: Array, dtype: str) -> Array:
    """`x` in another dtype; differentiable for torch tensors."""
    if dtype_name(x) == dtype:
        return x
    return x.astype(dtype) if isinstance(x, np.ndarray) else x.to(getattr(sys.modules["torch"], dtype))


def autocasts(x: Array) -> bool:
    """Whether torch.autocast is on for the device of `x`, so that torch casts operands to one dtype."""
    if isinstance(x, np.ndarray):
        return False
    torch = sys.modules["torch"]
    kind = x.device.type
    return bool(torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind))


# --- checks of arguments ---------------------------------------------------------------------------


def wrong(operator: str, argument: str, expected: str, given: object) -> UsageError:
    """The error for a bad argument: which one, what was expected, and what was given."""
    return UsageError(
        f"{operator}: argument `{argument}` must be {expected}, not {given}",
        remedy=f"See help(portkit.runtime.ops.{operator}).",
    )


def require_float(operator: str, **arrays: Array | None) -> None:
    """Every array given must be a NumPy array or torch tensor of floating point numbers, all of one kind."""
    kinds = set()
    for name, x in arrays.items():
        if x is None:
            continue
        known = isinstance(x, np.ndarray) or is_tensor(x)
        if not known:
            raise wrong(operator, name, "a NumPy array or a torch tensor", f"a {type(x).__name__}")
        if dtype_name(x) not in FLOATS:
            raise wrong(operator, name, "floating point", dtype_name(x))
        kinds.add(isinstance(x, np.ndarray))
        if len(kinds) > 1:
            raise wrong(operator, name, "of the same library as the others", type(x).__name__)


def require_axis(operator: str, argument: str, axis: object, ndim: int) -> int:
    """The axis counted from the front; 0-d arrays take 0 and -1, as in torch."""
    size = max(ndim, 1)
    ok = isinstance(axis, int) and not isinstance(axis, bool) and -size <= axis < size
    if not ok:
        raise wrong(operator, argument, f"an axis of a {ndim}-d array", repr(axis))
    assert isinstance(axis, int)
    return axis % size


def shape_text(x: Any) -> str:
    """The shape for a message."""
    return "shape (" + ", ".join(str(n) for n in x.shape) + ")"
