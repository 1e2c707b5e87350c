"""A function of scalars on each element of tiles."""

from __future__ import annotations

from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.library.assemble import _pick, _position, _shaped
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe
from portkit.runtime.tile.passes._rewrite import EFFECTS


def map_elementwise(sem: Semantics, scalar_fn: Any, args: tuple[Any, ...], pack: int = 1) -> Any:
    """A `map`, whose region is the function on scalars; `pack` neighbours at a time."""
    width = constant(pack)
    if not isinstance(width, int) or width < 1:
        raise KernelError(f"tl.map_elementwise: pack is a constant of at least 1, not {describe(pack)}")
    tiles = sem.same_shape(*(sem.value(arg) for arg in args))
    shape = tiles[0].type.shape
    if not shape or tiles[0].type.numel % width:
        raise KernelError(
            f"tl.map_elementwise needs tiles that pack={width} divides, not {describe(args[0])}"
        )
    for tile in tiles:
        if tile.type.dtype.is_float8:
            raise KernelError(
                "tl.map_elementwise takes no 8-bit floats", remedy="Cast first: x.to(tl.float16)."
            )
    parts = [part for tile in tiles for part in _parts(sem, tile, width)]
    results = _mapped(sem, scalar_fn, parts)
    if len(results) % width:
        raise KernelError(f"the function gives {len(results)} values, which pack={width} does not divide")
    whole = [_whole(sem, results[k : k + width], shape) for k in range(0, len(results), width)]
    return whole[0] if len(whole) == 1 else tuple(whole)


def _parts(sem: Semantics, tile: ir.Value, width: int) -> list[ir.Value]:
    """Every `width`-th element, from the first one on, from the second one on, ..."""
    if width == 1:
        return [tile]
    rows = _shaped(sem, tile, (tile.type.numel // width, width))
    return [_pick(sem, rows, 1, k) for k in range(width)]


def _whole(sem: Semantics, parts: list[ir.Value], shape: tuple[int, ...]) -> ir.Value:
    """The reverse of `_parts`."""
    if len(parts) == 1:
        return _shaped(sem, parts[0], shape)
    rows = (parts[0].type.numel, len(parts))
    column = _position(sem, rows, 1)
    found = sem.broadcast(sem.expand(parts[0], 1), rows)
    for k, part in enumerate(parts[1:], 1):
        found = sem.select(sem.compare("==", column, k), sem.expand(part, 1), found)
    return _shaped(sem, found, shape)


def _mapped(sem: Semantics, function: Any, tiles: list[ir.Value]) -> list[ir.Value]:
    region = ir.Block([ir.Value(tile.type.with_shape(())) for tile in tiles])
    builder = sem.builder
    outer, builder.block = builder.block, region
    try:
        given = sem.call(function, list(region.args))
        values = [sem.value(v) for v in (given if isinstance(given, tuple) else (given,))]
        builder.add("yield", values, [])
    finally:
        builder.block = outer
    for value in values:
        if value.type.is_tile or value.type.is_pointer:
            raise KernelError(f"the function of tl.map_elementwise gives {describe(value)}, not a number")
    if any(op.opcode in EFFECTS or op.opcode == "load" for op in ir.walk(region)):
        raise KernelError(
            "the function of tl.map_elementwise touches memory", remedy="Load and store around it."
        )
    types = [value.type.with_shape(tiles[0].type.shape) for value in values]
    return list(builder.add("map", tiles, types, [region]).results)
