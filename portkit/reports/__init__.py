"""Report formats: one module a format, found by walking this folder.

A format module defines `render(result, *, verbose=False, colour=False, width=100) -> str`, where `result` is
what `engine.scan` returns.  The module's name is the format's name.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from portkit.engine import ScanResult
from portkit.errors import UsageError


def formats() -> list[str]:
    """The names of all formats."""
    return sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))


def render(
    name: str, result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100
) -> str:
    """The report on `result` in the format `name`.  Raises UsageError for a format that there is not."""
    known = formats()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Formats: {', '.join(known)}."
        raise UsageError(f"There is no report format {name}.", remedy=hint)
    module = importlib.import_module(f"portkit.reports.{name}")
    text = module.render(result, verbose=verbose, colour=colour, width=width)
    return str(text)
