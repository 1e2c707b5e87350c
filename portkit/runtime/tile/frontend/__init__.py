"""The front end: a kernel's Python source, with the types of its arguments, becomes tile IR."""

from __future__ import annotations

from portkit.runtime.tile.frontend.entry import build

__all__ = ["build"]
