"""Random numbers of the tile language: functions of a seed and an offset, the same on every target."""

from __future__ import annotations

from typing import Any

from portkit.runtime.tile.language._base import outside, tensor


def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = 10) -> tuple[tensor, ...]:
    """Philox 4x32: four u32 for each counter."""
    outside("philox")


def randint4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[tensor, ...]:
    """Four random u32 for each offset."""
    outside("randint4x")


def randint(seed: Any, offset: Any, n_rounds: int = 10) -> tensor:
    """A random u32 for each offset."""
    outside("randint")


def rand4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[tensor, ...]:
    """Four uniform f32 in [0, 1) for each offset."""
    outside("rand4x")


def rand(seed: Any, offset: Any, n_rounds: int = 10) -> tensor:
    """A uniform f32 in [0, 1) for each offset."""
    outside("rand")


def randn4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[tensor, ...]:
    """Four normal f32 for each offset."""
    outside("randn4x")


def randn(seed: Any, offset: Any, n_rounds: int = 10) -> tensor:
    """A normal f32 for each offset."""
    outside("randn")


def uint_to_uniform_float(x: tensor) -> tensor:
    """u32 to f32 in [0, 1)."""
    outside("uint_to_uniform_float")


def pair_uniform_to_normal(u1: tensor, u2: tensor) -> tuple[tensor, tensor]:
    """Two uniform numbers to two normal ones."""
    outside("pair_uniform_to_normal")
