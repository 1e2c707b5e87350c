"""A place in a loop nest, what is known there, and what has been computed so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from portkit.runtime.targets import Target
from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import Affine, Analysis, Dims
from portkit.runtime.tile.lower.emit import Code, T, V
from portkit.runtime.tile.lower.storage import Buffer


class Index(NamedTuple):
    """Where along one dimension: `base`, or lanes base, base+1, …; `dim` is the loop's dimension."""

    base: V
    vec: bool = False
    dim: int | None = None


Place = tuple[Index, ...]


@dataclass
class Known:
    """What the loop may take for granted: comparisons (as form < 0) and flags that hold in all lanes."""

    holds: frozenset[Affine] = frozenset()
    flags: frozenset[tuple[ir.Value, Dims]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.holds or self.flags)


@dataclass
class Context:
    """What has been computed so far: scalars in registers, tiles in buffers."""

    code: Code
    target: Target
    analysis: Analysis = field(default_factory=Analysis)
    scalars: dict[ir.Value, V] = field(default_factory=dict)
    buffers: dict[ir.Value, Buffer] = field(default_factory=dict)
    views: dict[ir.Value, ir.Value] = field(default_factory=dict)  # tiles that lie in another one's memory
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    dummy: V = field(default_factory=lambda: V("%scratch", T("ptr")))  # masked-off scalars go there

    def origin(self, value: ir.Value) -> ir.Value:
        """The tile whose memory a value lies in."""
        return self.views.get(value, value)

    def number(self, value: ir.Value) -> int:
        """A stable number for ordering."""
        return self.numbers.setdefault(value, len(self.numbers))
