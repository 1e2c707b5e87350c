"""Report formats: one module a format, found by walking this folder.

A format module defines `render(result, *, verbose=False, colour=False, width=100) -> str`, where `result` is
what `engine.scan` returns.  The module's name is the format's name, the first line of its docstring its help.
"""

from __future__ import annotations

import difflib
import importlib

from portkit import plugins
from portkit.engine import ScanResult
from portkit.errors import UsageError


def formats() -> list[str]:
    """The names of all formats."""
    return plugins.names("portkit.reports")


def render(
    name: str, result: ScanResult, *, verbose: bool = False, colour: bool = False, width: int = 100
) -> str:
    """The report on `result` in the format `name`, with an end of line, as text that UTF-8 can hold.

    Raises UsageError for a format that there is not.
    """
    check(name)
    module = importlib.import_module(f"portkit.reports.{name}")
    text = str(module.render(result, verbose=verbose, colour=colour, width=width))
    # names of files that are not UTF-8 come as lone surrogates: \udcff, which is what JSON writes, too
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if text.endswith("\n") else f"{text}\n"


def check(name: str) -> None:
    """Raises UsageError for a format that there is not."""
    known = formats()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Formats: {', '.join(known)}."
        raise UsageError(f"There is no report format {name}.", remedy=hint)
