"""The door from the device layer to torch: imported at first use, asked what it has, not how old it is."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from portkit.errors import PortkitError


def torch() -> Any:
    """The torch module; raises PortkitError when it is not installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise PortkitError(
            "torch is not installed", remedy="Install it: pip install 'portkit[torch]'."
        ) from error


def accelerator_type() -> str | None:
    """The type of the accelerator that can be used now ("cuda", "xpu", ...), or None.

    A CUDA build on a machine without a GPU has an accelerator in name only: that is None here.

    Asking starts no device: it may happen while modules are imported (`def f(device=pk.device_type())`), and
    `torch.cuda.is_available()` would fix CUDA_VISIBLE_DEVICES and spoil CUDA for processes that are forked
    later.  `torch.cuda.device_count()` asks the driver's management library instead.
    """
    api = torch().accelerator
    current = api.current_accelerator()  # what torch was built for
    if current is None:
        return None
    kind = str(current.type)
    there = torch().cuda.device_count() > 0 if kind == "cuda" else api.is_available()
    return kind if there else None


def device_module() -> Any:
    """The accelerator's module (`torch.cuda`, `torch.xpu`, ...), or None on the CPU."""
    kind = accelerator_type()
    return None if kind is None else torch().get_device_module(kind)


def functions(*names: str) -> Iterator[Any]:
    """The functions of these names that `torch.accelerator` or the accelerator's module has, best first.

    Nothing on a machine without an accelerator.
    """
    module = device_module()
    if module is None:
        return
    for owner in (torch().accelerator, module):
        for name in names:
            found = getattr(owner, name, None)
            if callable(found):
                yield found


def call(names: tuple[str, ...], argument: int | None, default: Any) -> Any:
    """Call the first of these functions that the device supports, with an index or seed; else `default`."""
    for function in functions(*names):
        supported, value = _attempt(function, argument)
        if supported:
            return value
    return default


def _attempt(function: Any, argument: int | None) -> tuple[bool, Any]:
    try:
        return True, function() if argument is None else function(argument)
    except NotImplementedError:
        return False, None
    except TypeError:  # torch.mps has one device, and its functions take no index
        if argument:
            raise
        return True, function()
    except RuntimeError as error:
        if "not a DeviceAllocator" not in str(error):
            raise
        return False, None
