"""Passes over the tile IR, each a function from `Function` to `Function`; `PIPELINE` is their order."""

from __future__ import annotations

from collections.abc import Callable

from portkit.runtime.tile import ir
from portkit.runtime.tile.passes import carried, cse, dce, float8, fold, invariant

PIPELINE: tuple[Callable[[ir.Function], ir.Function], ...] = (
    float8.run,
    fold.run,
    carried.run,
    invariant.run,
    fold.run,
    cse.run,
    dce.run,
)
