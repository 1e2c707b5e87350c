"""The kernel with which `portkit doctor` tries the compiler."""

# mypy: disable-error-code="arg-type,operator"

from __future__ import annotations

from typing import Any

import portkit.runtime.tile.language as tl
from portkit.runtime.tile.jit import jit


@jit
def double(x: Any, y: Any, n: Any, block: tl.constexpr) -> None:
    """y = 2 x, for n elements."""
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < n
    tl.store(y + offsets, 2.0 * tl.load(x + offsets, mask=inside), mask=inside)
