"""What TorchScript compiles where a function asks for the device: the answer, as it is when it compiles.

`torch.jit.script` asks a function that it meets for `__prepare_scriptable__`.  It can't compile how the
device is found, and reads sources only: so the answer is written as one.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from typing import Any, Optional

from portkit.runtime._torch import torch
from portkit.runtime.devices import device_type

_ON_CPU = {
    "device": "def device(index: Optional[int] = None) -> torch.device:\n    return torch.device('cpu')\n",
}
_SOURCES = {
    "device": "def device(index: Optional[int] = None) -> torch.device:\n"
    "    if index is None:\n"
    "        return torch.device('{kind}')\n"
    "    return torch.device('{kind}:' + str(index))\n",
    "device_type": "def device_type() -> str:\n    return '{kind}'\n",
    "is_accelerator": "def is_accelerator(value: torch.Tensor) -> bool:\n"
    "    return value.device.type != 'cpu' and value.device.type != 'meta'\n",
}


def offer(*functions: Callable[..., Any]) -> None:
    """Let TorchScript compile an answer in the place of functions about the device."""
    for function in functions:
        vars(function)["__prepare_scriptable__"] = functools.partial(_stand_in, function.__name__)


def _stand_in(name: str) -> Callable[..., Any]:
    return _made(name, device_type())


@functools.cache
def _made(name: str, kind: str) -> Callable[..., Any]:
    sources = _SOURCES | (_ON_CPU if kind == "cpu" else {})
    source = sources[name].format(kind=kind)
    file = f"<portkit.runtime.{name} on {kind}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = f"portkit.runtime._on_{kind}"
    names: dict[str, Any] = {"__name__": module, "torch": torch(), "Optional": Optional}
    exec(compile(source, file, "exec"), names)
    made: Callable[..., Any] = names[name]
    return made
