"""Device memory: the accelerator's counters, and zeros where there is no accelerator.

Nothing raises on the CPU.  (`torch.cuda`'s functions are silent on a machine without CUDA; those of
`torch.accelerator` raise there.)
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from portkit.runtime._torch import call, device_module
from portkit.runtime.devices import index_of


def empty_cache() -> None:
    """Give unused cached memory back to the device; nothing on the CPU."""
    call(("empty_cache",), None, None)


def memory_allocated(device: Any = None) -> int:
    """Bytes in tensors on the device; 0 on the CPU."""
    return int(call(("memory_allocated", "current_allocated_memory"), index_of(device), 0))


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took on the device; 0 on the CPU and where the device keeps no peak."""
    return int(call(("max_memory_allocated",), index_of(device), 0))


def memory_reserved(device: Any = None) -> int:
    """Bytes that the caching allocator holds; 0 on the CPU."""
    return int(call(("memory_reserved", "driver_allocated_memory"), index_of(device), 0))


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the caching allocator held; 0 on the CPU and where the device keeps no peak."""
    return int(call(("max_memory_reserved",), index_of(device), 0))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start the peaks anew; nothing on the CPU."""
    call(("reset_peak_memory_stats",), index_of(device), None)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The allocator's counters; empty on the CPU and where the device keeps none."""
    return dict(call(("memory_stats",), index_of(device), {}))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of the device; of this machine's memory on the CPU."""
    module = device_module()
    if module is None:
        return _host_memory()
    index = index_of(device)
    if hasattr(module, "recommended_max_memory"):  # torch.mps: the system's memory is shared
        total = int(module.recommended_max_memory())
        return max(0, total - int(module.driver_allocated_memory())), total
    free, total = call(("get_memory_info", "mem_get_info"), index, (0, 0))
    return int(free), int(total)


def _host_memory() -> tuple[int, int]:
    rows: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii", errors="replace").splitlines():
            name, _, value = line.partition(":")
            rows[name] = int(value.split()[0]) * 1024
    if "MemAvailable" in rows and "MemTotal" in rows:
        return rows["MemAvailable"], rows["MemTotal"]
    with contextlib.suppress(AttributeError, OSError, ValueError):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return total, total
    return 0, 0
