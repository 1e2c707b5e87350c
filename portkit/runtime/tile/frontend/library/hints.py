"""Checks while compiling, and hints that change nothing."""

from __future__ import annotations

import sys
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe


def static_assert(sem: Semantics, cond: Any, msg: str = "") -> None:
    """Refuse to compile when the constant is false."""
    known = constant(cond) if isinstance(cond, ir.Value) else cond
    if isinstance(cond, ir.Value) and known is None:
        raise KernelError("tl.static_assert needs a constant", remedy="Mark its parameters tl.constexpr.")
    if not known:
        raise KernelError(f"static assertion failed: {msg}" if msg else "static assertion failed")


def static_print(sem: Semantics, values: tuple[Any, ...], sep: str = " ", end: str = "\n") -> None:
    """Print while compiling."""
    shown = (describe(v) if isinstance(v, ir.Value) else str(v) for v in values)
    sys.stderr.write(sep.join(shown) + end)


def assume(sem: Semantics, cond: Any) -> None:
    """Not needed."""


def debug_barrier(sem: Semantics) -> None:
    """Not needed: a program has one thread of control."""


def multiple_of(sem: Semantics, input: Any, values: Any) -> Any:
    """Not needed."""
    return input


def max_contiguous(sem: Semantics, input: Any, values: Any) -> Any:
    """Not needed."""
    return input


def max_constancy(sem: Semantics, input: Any, values: Any) -> Any:
    """Not needed."""
    return input


def gdc_wait(sem: Semantics) -> None:
    """Not needed: launches do not overlap."""


def gdc_launch_dependents(sem: Semantics) -> None:
    """Not needed: launches do not overlap."""
