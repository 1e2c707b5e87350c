"""In the place of Triton: code that imports `triton` gets portkit's modules of the same names."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import ModuleType

_PARTS = {  # Triton's package → ours; the longest name that fits counts
    "triton": "portkit.runtime.triton",
    "triton.language": "portkit.runtime.tile.language",
}


@contextlib.contextmanager
def as_triton() -> Iterator[ModuleType]:
    """Within this context `import triton`, and imports of its modules, give portkit's.

    Modules that are imported inside keep what they got.  Afterwards an installed Triton is there again, as it
    was before; it is neither imported nor changed.
    """
    before = {name: module for name, module in sys.modules.items() if _is_triton(name)}
    ours = _modules()
    for name in before:
        del sys.modules[name]
    sys.modules.update(ours)
    try:
        yield ours["triton"]
    finally:
        for name in [name for name in sys.modules if _is_triton(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def is_stand_in(module: ModuleType | None) -> bool:
    """Whether a module that is loaded as `triton` is ours."""
    return module is not None and module.__name__ == _PARTS["triton"]


def _is_triton(name: str) -> bool:
    return name == "triton" or name.startswith("triton.")


def _modules() -> dict[str, ModuleType]:
    """Ours, by Triton's names."""
    found: dict[str, ModuleType] = {}
    for theirs, ours in _PARTS.items():
        package = importlib.import_module(ours)
        found[theirs] = package
        for item in pkgutil.walk_packages(package.__path__, f"{ours}."):
            if not item.name.rpartition(".")[2].startswith("__"):
                found[theirs + item.name.removeprefix(ours)] = importlib.import_module(item.name)
    for name, module in list(found.items()):  # `extra.cuda.libdevice` is a module of another package
        for part, value in vars(module).items():
            if isinstance(value, ModuleType) and value in found.values():
                found.setdefault(f"{name}.{part}", value)
    return found
