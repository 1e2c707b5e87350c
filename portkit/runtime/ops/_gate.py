"""A short way for small torch tensors: checks and dispatch cost more than the kernel that they choose."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from portkit.runtime.ops._operator import Array, Operator

_FORCE = "PORTKIT_FORCE"


def gated(operator: Operator) -> Callable[..., Array]:
    """The operator's function, which hands torch tensors below `operator.small` elements to torch at once.

    A call that torch refuses is made again the long way, whose checks name the argument at fault.
    """
    function: Any = operator.function
    vendor, small = operator.vendor, operator.small
    loaded, environment = sys.modules, os.environ

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        torch = loaded.get("torch")
        if torch is None or not args:
            return function(*args, **kwargs)
        x = args[0]
        plain = type(x) is torch.Tensor or type(x) is torch.nn.Parameter
        if not plain or x.numel() >= small or _FORCE in environment:
            return function(*args, **kwargs)
        try:
            return vendor(*args, **kwargs)
        except (TypeError, ValueError, RuntimeError, IndexError):
            return function(*args, **kwargs)

    result: Any = run
    for one in (result, function):
        one.__prepare_scriptable__ = functools.partial(_scripted, operator.name, function)
    return run


def _scripted(name: str, function: Callable[..., Array]) -> Callable[..., Array]:
    """What `torch.jit.script` compiles where a function calls the operator."""
    from portkit.runtime.ops import _scripted

    return _scripted.stand_in(name, function)
