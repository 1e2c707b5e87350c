"""Launches on devices that the tile compiler has no target for: through Triton itself, where it is installed.

A kernel that was written for Triton keeps running on its old GPU after its imports have changed: it is handed
to Triton with Triton's own language in the place of ours.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from portkit.runtime.tile import ir
from portkit.runtime.tile.language import constexpr
from portkit.runtime.tile.stand_in import is_stand_in

if TYPE_CHECKING:
    from portkit.runtime.tile.jit import JitFunction

_RUNTIME = "portkit.runtime."
_OURS = "portkit.runtime.tile.language"
_SHIM = "portkit.runtime.triton"
_made: dict[int, Any] = {}  # id of a kernel → Triton's kernel; kernels live as long as their modules


def launch(kernel: JitFunction, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Launch a kernel through Triton; False without Triton or a device of its own, and when interpreting."""
    from portkit.runtime.tile.jit import interpreting

    if interpreting() or not _has_driver():
        return False
    theirs(kernel)[grid](*args, **kwargs)
    return True


def _has_driver() -> bool:
    """Whether Triton is installed and drives a device here (its wheel is there on many machines without)."""
    if is_stand_in(sys.modules.get("triton")) or importlib.util.find_spec("triton") is None:
        return False
    driver = importlib.import_module("triton.runtime").driver
    try:
        driver.active.get_current_target()
    except RuntimeError:  # no active driver, or several
        return False
    return True


def theirs(kernel: JitFunction) -> Any:
    """Triton's kernel of the same source, with Triton's names in its globals."""
    key = id(kernel)
    if key in _made:
        return _made[key]
    triton = importlib.import_module("triton")
    fn = kernel.fn
    names: dict[str, Any] = {}
    code = fn.__code__
    copy = types.FunctionType(code, names, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__ = fn.__kwdefaults__
    copy.__module__, copy.__qualname__, copy.__doc__ = fn.__module__, fn.__qualname__, fn.__doc__
    copy.__annotations__ = {name: _translated(value) for name, value in fn.__annotations__.items()}
    made = triton.jit(copy)
    _made[key] = made  # before its globals: kernels may call themselves, or each other
    for name, value in fn.__globals__.items():
        names[name] = _translated(value)
    return made


def _translated(value: Any) -> Any:
    """What Triton has in the place of something of ours; anything else stays."""
    from portkit.runtime.tile.jit import JitFunction

    if isinstance(value, JitFunction):
        return theirs(value)
    if isinstance(value, types.ModuleType):
        return _module(value)
    if isinstance(value, constexpr):
        return importlib.import_module("triton.language").constexpr(value.value)
    place = _places().get(id(value))
    if place is None:
        return value
    module, name = place
    return getattr(_module(module), name, value)


@functools.cache
def _places() -> dict[int, tuple[types.ModuleType, str]]:
    """Functions, types and classes of ours by identity: the module and name under which Triton has them."""
    found: dict[int, tuple[types.ModuleType, str]] = {}
    for path in (_SHIM, f"{_OURS}.math", _OURS):
        module = importlib.import_module(path)
        for name, value in vars(module).items():
            known = isinstance(value, ir.DType) or (
                isinstance(value, (types.FunctionType, type)) and value.__module__.startswith(_RUNTIME)
            )
            if known and not name.startswith("_"):
                found[id(value)] = (module, name)
    return found


def _module(module: types.ModuleType) -> types.ModuleType:
    name = module.__name__
    if name == _SHIM or name.startswith(f"{_SHIM}."):
        return importlib.import_module("triton" + name.removeprefix(_SHIM))
    if name == _OURS or name.startswith(f"{_OURS}."):
        return importlib.import_module("triton.language" + name.removeprefix(_OURS))
    return module
