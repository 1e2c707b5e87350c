"""What migrated code imports: devices, streams, memory, random numbers, mixed precision, operators, kernels.

`import portkit.runtime as pk` works on any device that torch knows, and on the CPU alone.

Neither torch nor LLVM is imported before something that needs it is called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from portkit.runtime import _scripting, amp, ranges
from portkit.runtime.devices import (
    current_device,
    device,
    device_count,
    device_index,
    device_name,
    device_type,
    is_accelerator,
    is_available,
    is_bf16_supported,
    set_device,
    synchronize,
)
from portkit.runtime.distributed import (
    ddp_device_ids,
    distributed_backend,
    map_location,
    process_group_device,
)
from portkit.runtime.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
)
from portkit.runtime.random import (
    get_rng_state,
    get_rng_state_all,
    manual_seed,
    manual_seed_all,
    set_rng_state,
    set_rng_state_all,
)
from portkit.runtime.streams import Event, Stream, current_stream, default_stream, record_stream, stream

if TYPE_CHECKING:
    from portkit.runtime.tile.jit import cdiv, jit, next_power_of_2

__all__ = [
    "Event",
    "Stream",
    "amp",
    "cdiv",
    "current_device",
    "current_stream",
    "ddp_device_ids",
    "default_stream",
    "device",
    "device_count",
    "device_index",
    "device_name",
    "device_type",
    "distributed_backend",
    "empty_cache",
    "get_rng_state",
    "get_rng_state_all",
    "is_accelerator",
    "is_available",
    "is_bf16_supported",
    "jit",
    "manual_seed",
    "manual_seed_all",
    "map_location",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "next_power_of_2",
    "process_group_device",
    "ranges",
    "record_stream",
    "reset_peak_memory_stats",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]

_scripting.offer(device, device_type, is_accelerator)
_LAZY = dict.fromkeys(("cdiv", "jit", "next_power_of_2"), "portkit.runtime.tile.jit")
_SUBMODULES = ("nn", "ops", "tile", "triton")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
