"""The source text of a Python function, where Python really has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from portkit.errors import KernelError

_TEXT = "__portkit_source__"


def with_source(function: FunctionType, text: str) -> FunctionType:
    """A copy of a function that is compiled from another text."""
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = function.__annotations__
    made.__module__, made.__qualname__, made.__doc__ = (
        function.__module__,
        function.__qualname__,
        function.__doc__,
    )
    setattr(made, _TEXT, text)
    return made


def source_lines(function: Callable[..., Any]) -> tuple[list[str], int]:
    """The lines of a function, from its first decorator on, and the number of the first in its file.

    Raises KernelError where Python can't give them: a function made by `exec` or in an interactive session.
    For those, Python 3.13 answers with lines of another text that has the same made-up file name.
    """
    name = function.__name__
    given = getattr(function, _TEXT, None)
    if given is not None:
        return given.splitlines(keepends=True), function.__code__.co_firstlineno
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        lines, first = [], 0
    wanted = "lambda" if name == "<lambda>" else f"def {name}"
    if not any(wanted in line for line in lines):
        raise KernelError(
            f"the source of kernel `{name}` can't be read",
            remedy="Define kernels in a file: they are compiled from their source text.",
        )
    return lines, first
