"""Operators, one module each: `pk.ops.softmax(x, dim=-1)`; found by walking this folder.

A third-party package adds operators through the entry-point group `portkit.operators`: a module with an
`OPERATOR` and its public functions.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from portkit.plugins import external

if TYPE_CHECKING:
    from portkit.runtime.ops._operator import Operator


def _modules() -> Iterator[ModuleType]:
    names = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    yield from (importlib.import_module(f"{__name__}.{name}") for name in names)
    yield from external("portkit.operators")


@functools.cache
def operators() -> dict[str, Operator]:
    """Every operator by name: those of this folder, then those of installed packages."""
    return {module.OPERATOR.name: module.OPERATOR for module in _modules()}


def _public(name: str) -> Any:
    """The public function of that name in the module of the same name, or else in any module."""
    known = {info.name for info in pkgutil.iter_modules(__path__)}
    if name in known:
        return getattr(importlib.import_module(f"{__name__}.{name}"), name)
    for module in _modules():
        value = vars(module).get(name)
        if callable(value) and getattr(value, "__module__", "") == module.__name__:
            return value
    raise AttributeError(f"module {__name__!r} has no operator {name!r}")


@functools.cache
def _gated(function: Any) -> Any:
    """The public function of an operator with a short way for small tensors; any other function itself."""
    from portkit.runtime.ops._gate import gated

    operator = getattr(sys.modules.get(function.__module__), "OPERATOR", None)
    return gated(operator) if operator is not None and operator.function is function else function


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = _gated(_public(name))
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Importing `ops.softmax` binds that name here to the module; what it has to mean is the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and not name.startswith("_"):
            value = _gated(getattr(value, name)) if hasattr(value, name) else value
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
