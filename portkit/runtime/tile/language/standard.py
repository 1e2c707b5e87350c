"""The language, where Triton has its `standard` module."""

from __future__ import annotations

from typing import Any

from portkit.runtime.tile.language._base import constexpr_function, unwrap


@constexpr_function
def _log2(i: Any) -> int:
    """The logarithm of a power of two."""
    return int(unwrap(i)).bit_length() - 1


def __getattr__(name: str) -> Any:
    """Everything of the language."""
    from portkit.runtime.tile import language

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(language, name)
