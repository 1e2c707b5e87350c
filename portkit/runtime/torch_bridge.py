"""Tile kernels for torch tensors."""

from __future__ import annotations

from typing import Any

from portkit.runtime.ops._operator import Operator


def run_tile(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the tile kernels of an operator on torch tensors."""
    raise NotImplementedError(operator.name)
