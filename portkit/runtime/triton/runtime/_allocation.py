"""Scratch memory that kernels of other backends ask the program for: a CPU kernel needs none."""

from __future__ import annotations

from typing import Any


class NullAllocator:
    """Gives no memory."""

    def __call__(self, size: int, alignment: int, stream: Any) -> Any:
        raise RuntimeError("no kernel of this backend asks for memory")


def set_allocator(allocator: Any) -> None:
    """Accepted, and never called."""


__all__ = ["NullAllocator", "set_allocator"]
