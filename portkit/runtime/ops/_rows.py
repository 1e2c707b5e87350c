"""What kernels over rows share: sizes, block widths, and the sum of what the programs found."""

from __future__ import annotations

from typing import Any

from portkit.runtime.ops._arrays import empty
from portkit.runtime.ops._operator import Array
from portkit.runtime.tile.jit import cdiv, next_power_of_2

WIDEST = 16384  # a row up to this many elements is one tile; a longer one is taken in blocks
GROUP = 64  # rows whose contributions to a weight's gradient one program sums


def rows_of(x: Array, axes: int = 1) -> tuple[int, int]:
    """Number and length of the rows that the last `axes` axes make (one of one element for a scalar)."""
    length = 1
    for size in x.shape[x.ndim - axes :] if x.ndim else ():
        length *= size
    count = 1
    for size in x.shape[: x.ndim - axes] if x.ndim else ():
        count *= size
    return count, length


def block_for(length: int) -> int:
    """Width of the tile for rows of this length."""
    return next_power_of_2(length) if length <= WIDEST else 4096


def partial_sums(like: Array, rows: int, length: int) -> Array:
    """Memory for one float32 row for each group of GROUP rows."""
    return empty(like, (cdiv(rows, GROUP), length), "float32")


def sum_into(target: Array | None, partial: Any) -> None:
    """Sum the rows of `partial` into `target`, in the dtype of that."""
    if target is not None:
        target.reshape(-1)[...] = partial.sum(0)
