"""Autotuning, where libraries look for its classes."""

from __future__ import annotations

from portkit.runtime.tile.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from portkit.runtime.triton.runtime.errors import OutOfResources

__all__ = ["Autotuner", "Config", "Heuristics", "OutOfResources", "autotune", "heuristics"]
