"""The source text of a Python function, where Python really has it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from portkit.errors import KernelError


def source_lines(function: Callable[..., Any]) -> tuple[list[str], int]:
    """The lines of a function, from its first decorator on, and the number of the first in its file.

    Raises KernelError where Python can't give them: a function made by `exec` or in an interactive session.
    For those, Python 3.13 answers with lines of another text that has the same made-up file name.
    """
    name = function.__name__
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
