"""The language, where Triton has its `standard` module."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Everything of the language."""
    from portkit.runtime.tile import language

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(language, name)
