"""Finding things by walking a folder: each rule, command, operator, target or format is one module."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from portkit.errors import UsageError


def names(package: str) -> list[str]:
    """The names of the public modules inside a package of ours, none of which is imported."""
    folder = Path(__file__).parent.joinpath(*package.split(".")[1:])
    return sorted(info.name for info in pkgutil.iter_modules([str(folder)]) if info.name[0] != "_")


def modules(package: str) -> Iterator[ModuleType]:
    """Import and yield every public module directly inside `package`, in name order."""
    root = importlib.import_module(package)
    for info in sorted(pkgutil.iter_modules(root.__path__), key=lambda item: item.name):
        if not info.name.startswith("_"):
            yield importlib.import_module(f"{package}.{info.name}")


def external(group: str) -> Iterator[ModuleType]:
    """Import and yield the modules that installed packages offer under an entry-point group.

    Raises UsageError that names the package where one cannot be imported.
    """
    for point in sorted(entry_points(group=group), key=lambda item: item.name):
        try:
            loaded = point.load()
        except Exception as error:  # whatever a module of another package raises
            raise UsageError(
                f"The plugin {point.value} cannot be imported: {type(error).__name__}: {error}",
                place=group,
                remedy="Mend or uninstall the package that offers it.",
            ) from error
        if isinstance(loaded, ModuleType):
            yield loaded
