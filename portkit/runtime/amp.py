"""Automatic mixed precision with `torch.cuda.amp`'s signatures and defaults, on the device in use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from portkit.runtime._torch import torch
from portkit.runtime.devices import device_type


def _without_float16(kind: str) -> bool:
    """Whether float16 regions are off on this device.

    With PORTKIT_CPU_FLOAT16 set the CPU does what an accelerator would: so that parity can compare it.
    """
    return kind == "cpu" and not os.environ.get("PORTKIT_CPU_FLOAT16")


class autocast:
    """`torch.autocast` for the device in use; a context manager and a decorator.

    Positional order and defaults are those of `torch.cuda.amp.autocast`; `dtype=None` is float16.  On the CPU
    a float16 region runs in full precision, as it does under `torch.cuda.amp.autocast` without CUDA (the
    gradient scaler is off there, and without it float16 gradients underflow); a bfloat16 region runs in
    bfloat16.  Devices without autocast run in full precision.
    """

    def __new__(cls, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
        api = torch()
        kind = device_type()
        dtype = api.float16 if dtype is None else dtype
        if not api.amp.is_autocast_available(kind):
            return api.autocast("cpu", dtype=api.bfloat16, enabled=False, cache_enabled=cache_enabled)
        if _without_float16(kind) and dtype is not api.bfloat16:
            return api.autocast("cpu", dtype=api.bfloat16, enabled=False, cache_enabled=cache_enabled)
        return api.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler:
    """`torch.amp.GradScaler` for the device in use.

    Positional order and defaults are those of `torch.cuda.amp.GradScaler`.  On the CPU it is disabled, as
    that one is without CUDA: `scale` returns the loss, `step` steps, `get_scale` is 1.
    """

    def __new__(
        cls,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> Any:
        kind = device_type()
        return torch().amp.GradScaler(
            kind,
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled and not _without_float16(kind),
        )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd` for the device in use; with and without parentheses."""
    return torch().amp.custom_fwd(fwd, device_type=device_type(), cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Any:
    """`torch.amp.custom_bwd` for the device in use; with and without parentheses."""
    return torch().amp.custom_bwd(bwd, device_type=device_type())
