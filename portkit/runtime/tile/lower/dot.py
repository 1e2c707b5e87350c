"""dot: nothing yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portkit.errors import KernelError
from portkit.runtime.tile import ir

if TYPE_CHECKING:
    from portkit.runtime.tile.lower.program import Program


def lower_dot(program: Program, op: ir.Op) -> None:
    """Refuses."""
    raise KernelError("dot has no lowering yet", place=str(op.loc or ""))
