"""Which device a program runs on: the accelerator that torch sees now, or the CPU."""

from __future__ import annotations

import contextlib
import platform
from pathlib import Path
from types import TracebackType
from typing import Any

from portkit.errors import UsageError
from portkit.runtime._torch import accelerator_type, call, device_module, functions, torch

_HOST = ("cpu", "meta")


def device_type() -> str:
    """The type of the device in use: "cuda" (also for ROCm), "xpu", "mps", ..., or "cpu".

    A CUDA build of torch on a machine without a GPU gives "cpu".
    """
    return accelerator_type() or "cpu"


def device(index: Any = None) -> Any:
    """The accelerator as a `torch.device`, with an index if one is given; else `torch.device("cpu")`.

    `index` is an int, or a device or string whose index is taken ("cuda:1" is device 1 of whatever
    accelerator there is; "cpu" stays the CPU).  On CPU the result never has an index: the CPU has none.
    """
    kind = device_type()
    if kind == "cpu" or _names_host(index):
        return torch().device("cpu")
    number = index_of(index)
    return torch().device(kind) if number is None else torch().device(kind, number)


def is_available() -> bool:
    """Whether there is an accelerator that can be used."""
    return accelerator_type() is not None


def device_count() -> int:
    """Number of accelerators; 0 on the CPU, as `torch.cuda.device_count()` gives without CUDA."""
    return int(call(("device_count",), None, 0))


def current_device() -> int:
    """Index of the current accelerator: a number, not a device; 0 on the CPU."""
    return int(call(("current_device_index", "current_device_idx", "current_device"), None, 0))


def set_device(device: Any) -> None:
    """Make an accelerator the current one; takes an int, string or device.

    Nothing happens on the CPU, for a negative index, for None and for a device without an index.
    """
    number = index_of(device)
    if number is None or number < 0 or _names_host(device):
        return
    call(("set_device_index", "set_device_idx", "set_device"), number, None)


def synchronize(device: Any = None) -> None:
    """Wait for everything on the device; nothing to wait for on the CPU."""
    if not _names_host(device):
        call(("synchronize",), index_of(device), None)


class DeviceContext:
    """A context in which another accelerator is the current one; can be entered again and nested."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self._previous: list[int] = []

    def __enter__(self) -> None:
        self._previous.append(current_device())
        set_device(self.index)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        previous = self._previous.pop()
        if self.index is not None and self.index >= 0:
            set_device(previous)


def device_index(device: Any = None) -> DeviceContext:
    """`with device_index(d):` makes `d` the current accelerator, as `with torch.cuda.device(d):` does.

    `d` is an int, string, device, tensor or None; None, a negative index and the CPU change nothing.
    """
    owner = getattr(device, "device", device)  # torch.cuda.device_of(tensor)
    return DeviceContext(None if _names_host(owner) else index_of(owner))


def device_name(device: Any = None) -> str:
    """The accelerator's name as its driver gives it, or the processor's on the CPU."""
    module = device_module()
    if module is None or _names_host(device):
        return processor_name()
    getter = getattr(module, "get_device_name", None) or getattr(module, "get_name", None)
    if getter is None:
        return device_type()
    index = index_of(device)
    return str(getter() if index is None else getter(index))


def is_bf16_supported() -> bool:
    """Whether the device in use computes in bfloat16.

    CUDA and XPU answer as their own `is_bf16_supported()`; other devices are tried with a small tensor; the
    CPU always does (in software where the processor can't).
    """
    kind = device_type()
    if kind == "cpu":
        return True
    for function in functions("is_bf16_supported"):
        return bool(function())
    api = torch()
    with contextlib.suppress(RuntimeError, TypeError):
        one = api.ones(1, dtype=api.bfloat16, device=kind)
        return float((one + one).float().cpu()) == 2.0
    return False


def is_accelerator(value: Any) -> bool:
    """Whether a tensor, device, device string or index is on an accelerator (`tensor.is_cuda`, portably).

    An int means an accelerator's index, as in `tensor.to(0)`; None is false.  What holds tensors and has no
    device (a PackedSequence) is where its `data` is, or else where it says itself that it is.
    """
    if value is None:
        return False
    if isinstance(value, int):
        return is_available()
    data = getattr(value, "data", None)
    for place in (getattr(value, "device", None), value, getattr(data, "device", None)):
        if isinstance(place, str) or (hasattr(place, "type") and hasattr(place, "index")):
            return not _names_host(place)
    return getattr(value, "is_cuda", None) is True


def index_of(device: Any) -> int | None:
    """The index in an int, digits, "kind:1" or a device; None where there is none.

    Raises UsageError for what is none of these.
    """
    if device is None:
        return None
    if isinstance(device, str):
        return _index_in(device)
    if hasattr(device, "type") and hasattr(device, "index"):
        return None if device.index is None else int(device.index)
    try:
        return int(device)
    except (TypeError, ValueError):
        raise UsageError(
            f"{device!r} is not a device",
            remedy="Pass an index, a string such as 'cuda:0', or a torch.device.",
        ) from None


def _index_in(text: str) -> int | None:
    if text.isdecimal():
        return int(text)
    kind, colon, number = text.partition(":")
    if not kind.isidentifier() or (colon and not number.isdecimal()):
        raise UsageError(f"{text!r} is not a device", remedy='Write it as "cuda:0", "xpu:1" or "cpu".')
    return int(number) if colon else None


def _names_host(device: Any) -> bool:
    """Whether a device or a string names the CPU (or the meta device)."""
    kind = getattr(device, "type", None) if not isinstance(device, str) else device.partition(":")[0]
    return kind in _HOST


def processor_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model Name", "uarch") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "cpu"
