"""What this machine can do at best, measured by small probes: copies and matrix products through torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

REPEATS = 10
_MEMORY = {"cpu": 1 << 26}  # bytes of the tensor that is copied, far beyond the caches
_OTHERS = 1 << 30
_CACHE = 1 << 18  # bytes of one that stays in the cache of a core
_LONG = 2e-3  # seconds that a product takes at least to be a measurement
_SIDE = (512, 16384)  # smallest and largest side of the matrices
_TRIED = ("float64", "float32", "bfloat16", "float16")


def peaks(device: str, dtypes: Sequence[str]) -> list[dict[str, Any]]:
    """Probes: `unit` is B/s or FLOP/s; `what` says in words what was done."""
    size = _MEMORY.get(device, _OTHERS)
    found = [_copy(device, size, f"copy of {size >> 20} MiB")]
    if device == "cpu":
        found.append(_copy(device, _CACHE, f"copy of {_CACHE >> 10} KiB, in a cache"))
    found += [_product(device, name) for name in _TRIED if name in dtypes]
    return found


def _copy(device: str, size: int, what: str) -> dict[str, Any]:
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    repeats = max(1, (1 << 24) // size)

    def copy() -> None:
        for _ in range(repeats):
            target.copy_(source)

    return {"what": what, "unit": "B/s", "dtype": "", "rate": 2 * size * repeats / _best(device, copy)}


def _product(device: str, dtype: str) -> dict[str, Any]:
    """The largest product that takes no longer than needed to time it."""
    side, largest = _SIDE
    while True:
        a = torch.ones(side, side, device=device, dtype=getattr(torch, dtype))
        b = torch.ones_like(a)
        seconds = _best(device, lambda a=a, b=b: torch.mm(a, b))  # type: ignore[misc]
        if seconds >= _LONG or side >= largest:
            what = f"{dtype} product of {side}×{side} matrices"
            return {"what": what, "unit": "FLOP/s", "dtype": dtype, "rate": 2 * side**3 / seconds}
        side *= 2


def _best(device: str, do: Callable[[], Any]) -> float:
    """Seconds of the fastest of some runs, after one that does not count."""
    found = []
    for _ in range(REPEATS + 1):
        _wait(device)
        start = time.perf_counter()
        do()
        _wait(device)
        found.append(time.perf_counter() - start)
    return min(found[1:])


def _wait(device: str) -> None:
    if device != "cpu":
        torch.accelerator.synchronize()
