"""Roots (stores, reductions, tiles to keep) that are computed together in one fused loop nest."""

from __future__ import annotations

from dataclasses import dataclass, field

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import Dims, source_dims
from portkit.runtime.tile.lower.alias import Aliases
from portkit.runtime.tile.lower.storage import Buffer


@dataclass(eq=False)
class Root:
    """Something that has to be computed for every element of a shape."""

    kind: str  # store, reduce, keep
    value: ir.Value  # what is computed
    shape: tuple[int, ...]
    op: ir.Op | None = None  # the store or reduction
    buffer: Buffer | None = None  # where a tile goes
    result: ir.Value | None = None  # the value of the kernel that it defines

    @property
    def inputs(self) -> list[ir.Value]:
        return list(self.op.operands) if self.kind == "store" and self.op else [self.value]

    @property
    def axis(self) -> int | None:
        """The axis of a reduction."""
        if self.kind != "reduce" or self.op is None:
            return None
        return int(self.op.attrs["axis"]) % len(self.shape)  # type: ignore[arg-type]


@dataclass
class Leaves:
    """What a root is computed from, with the dimensions of the root that each follows."""

    loads: list[tuple[ir.Op, Dims]] = field(default_factory=list)
    kept: list[tuple[ir.Value, Dims]] = field(default_factory=list)
    scalars: set[ir.Value] = field(default_factory=set)
    flags: list[tuple[ir.Value, Dims]] = field(default_factory=list)
    size: int = 0  # operations on the way


class Grouper:
    """Finds what roots depend on, and whether they can share a loop nest."""

    def __init__(self, aliases: Aliases, stops: set[ir.Value]) -> None:
        self.aliases = aliases
        self.stops = stops  # values with a buffer, now or later
        self.cache: dict[Root, Leaves] = {}

    def leaves(self, root: Root) -> Leaves:
        """Loads, kept tiles and scalars that a root needs."""
        if root not in self.cache:
            found, seen = Leaves(), set[tuple[ir.Value, Dims]]()
            identity = tuple(range(len(root.shape)))
            first = root.value if root.kind == "keep" and root.result is root.value else None
            todo: list[tuple[ir.Value, Dims]] = [(v, identity) for v in root.inputs]
            while todo:
                item = todo.pop()
                if item not in seen:
                    seen.add(item)
                    todo += self._visit(found, item[0], item[1], first)
            self.cache[root] = found
        return self.cache[root]

    def _visit(
        self, found: Leaves, value: ir.Value, dims: Dims, first: ir.Value | None
    ) -> list[tuple[ir.Value, Dims]]:
        if not value.type.is_tile:
            found.scalars.add(value)
            return []
        op = value.owner
        if op is None or (value in self.stops and value is not first):
            found.kept.append((value, dims))
            return []
        found.size += 1
        if op.opcode == "load":
            found.loads.append((op, dims))
        source = source_dims(op)
        if source is not None:
            return [(op.operands[0], tuple(None if d is None else dims[d] for d in source))]
        return [(v, dims) for v in op.operands]

    def conflict(self, group: list[Root], root: Root) -> bool:
        """Whether a root can't join the roots that wait."""
        if not group:
            return False
        if group[0].shape != root.shape:
            return True
        axes = {r.axis for r in [*group, root]} - {None}
        if len(axes) > 1:
            return True
        leaves = self.leaves(root)
        return any(self._depends(r, root, leaves) or self._collides(r, root, leaves) for r in group)

    def _depends(self, before: Root, root: Root, leaves: Leaves) -> bool:
        if before.kind == "reduce":
            return before.result in leaves.scalars or any(v is before.result for v, _ in leaves.kept)
        if before.kind == "keep":
            identity = tuple(range(len(root.shape)))
            return any(v is before.result and dims != identity for v, dims in leaves.kept)
        return False

    def _collides(self, before: Root, root: Root, leaves: Leaves) -> bool:
        """Whether memory is written by one and used by the other at different places of the loop."""
        if before.kind == "store" and before.op is not None:
            if any(self.aliases.may_alias(before.op, load) for load, _ in leaves.loads):
                return True
            if root.kind == "store" and root.op is not None and self.aliases.may_alias(before.op, root.op):
                return True
        if root.kind == "store" and root.op is not None:
            identity = tuple(range(len(root.shape)))
            for load, dims in self.leaves(before).loads:
                if self.aliases.may_alias(root.op, load) and not (
                    dims == identity and self.aliases.same_address(root.op, load)
                ):
                    return True
        return False
