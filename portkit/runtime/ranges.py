"""Named ranges for profilers: NVTX on CUDA, as before; regions of torch's own profiler elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from portkit.runtime._torch import torch
from portkit.runtime.devices import device_type


class _Open(threading.local):
    """The regions that a thread has pushed and not popped."""

    def __init__(self) -> None:
        self.regions: list[Any] = []


_OPEN = _Open()


def _nvtx() -> Any:
    return torch().cuda.nvtx if device_type() == "cuda" else None


def range_push(msg: str) -> int:
    """Begin a range; gives the number of ranges around it, as `torch.cuda.nvtx.range_push` does."""
    nvtx = _nvtx()
    if nvtx is not None:
        return int(nvtx.range_push(msg))
    region = torch().profiler.record_function(msg)
    region.__enter__()
    _OPEN.regions.append(region)
    return len(_OPEN.regions) - 1


def range_pop() -> int:
    """End the range begun last; gives the number of ranges around it, -1 if there was none to end."""
    nvtx = _nvtx()
    if nvtx is not None:
        return int(nvtx.range_pop())
    if not _OPEN.regions:
        return -1
    _OPEN.regions.pop().__exit__(None, None, None)
    return len(_OPEN.regions)


def mark(msg: str) -> None:
    """Note a moment; an empty region where there is no NVTX."""
    nvtx = _nvtx()
    if nvtx is not None:
        nvtx.mark(msg)
        return
    with torch().profiler.record_function(msg):
        pass


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context (and decorator) whose body is a range; `msg` is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
