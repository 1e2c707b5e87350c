"""The folder of compiled kernels, as libraries ask for it."""

from __future__ import annotations

from portkit.runtime.tile import cache


def default_cache_dir() -> str:
    """The folder in which compiled kernels are kept."""
    return str(cache.shared().folder)


__all__ = ["default_cache_dir"]
