"""Passes over the tile IR, each a function from `Function` to `Function`; `PIPELINE` is their order."""

from __future__ import annotations

from collections.abc import Callable

from portkit.runtime.tile import ir

PIPELINE: tuple[Callable[[ir.Function], ir.Function], ...] = ()
