"""Modules over the operators, one file each: `pk.nn.LayerNorm`; found by walking this folder.

Each is a subclass of the torch module of the same name: the same constructor, parameters and `state_dict`,
and `isinstance` checks in existing code stay true.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any


@functools.cache
def modules() -> dict[str, Any]:
    """Every module class by name."""
    found: dict[str, Any] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda item: item.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        classes = {name: value for name, value in vars(module).items() if isinstance(value, type)}
        found |= {name: value for name, value in classes.items() if value.__module__ == module.__name__}
    for value in found.values():
        value.__prepare_scriptable__ = _as_torch
    return found


def _as_torch(module: Any) -> Any:
    """What `torch.jit.script` compiles in a module's place: torch's own, with the same parameters."""
    kind = type(module)
    if kind not in modules().values():
        return module  # a subclass of the user's
    base: Any = next(item for item in kind.__mro__ if item.__module__.startswith("torch."))
    plain = base.__new__(base)
    plain.__dict__ = module.__dict__
    return plain


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in modules():
        raise AttributeError(f"module {__name__!r} has no module {name!r}")
    return modules()[name]
