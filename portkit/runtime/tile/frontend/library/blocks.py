"""Block pointers and tensor descriptors, rewritten to pointer arithmetic and masks while compiling."""

from __future__ import annotations

from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.library import memory
from portkit.runtime.tile.frontend.semantics import Semantics, describe, sizes
from portkit.runtime.tile.frontend.windows import BlockPointer, Fixed, base_pointer, load_window, scalars


def make_block_ptr(
    sem: Semantics, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> BlockPointer:
    """A window of an array; `order` is a hint."""
    block = sizes(block_shape)
    rank = len(block)
    return BlockPointer(
        base_pointer(base),
        scalars(sem, shape, rank, "shape"),
        scalars(sem, strides, rank, "strides"),
        scalars(sem, offsets, rank, "offsets"),
        Fixed(block),
    )


def advance(sem: Semantics, base: Any, offsets: Any) -> BlockPointer:
    """The window moved by offsets."""
    if not isinstance(base, BlockPointer):
        raise KernelError(f"tl.advance needs a block pointer, not {describe(base)}")
    steps = scalars(sem, offsets, len(base.offsets), "offsets")
    moved = tuple(sem.binary("+", o, s) for o, s in zip(base.offsets, steps, strict=True))
    return base._replace(offsets=moved)


def make_tensor_descriptor(
    sem: Semantics, base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero"
) -> BlockPointer:
    """An array read and written in blocks; what lies outside it is padding, and is not written."""
    block = sizes(block_shape)
    rank = len(block)
    zeros = tuple(sem.const(0, ir.I64) for _ in range(rank))
    return BlockPointer(
        base_pointer(base),
        scalars(sem, shape, rank, "shape"),
        scalars(sem, strides, rank, "strides"),
        zeros,
        Fixed(block, padding_option, True),
    )


def _at(sem: Semantics, desc: Any, offsets: Any) -> BlockPointer:
    if not isinstance(desc, BlockPointer) or not desc.fixed.is_descriptor:
        raise KernelError(f"expected a tensor descriptor, not {describe(desc)}")
    return desc._replace(offsets=scalars(sem, offsets, len(desc.fixed.block), "offsets"))


def load_tensor_descriptor(sem: Semantics, desc: Any, offsets: Any) -> ir.Value:
    """Read the block at offsets."""
    place = _at(sem, desc, offsets)
    return load_window(sem, place, list(range(len(place.offsets))), place.fixed.padding)


def store_tensor_descriptor(sem: Semantics, desc: Any, offsets: Any, value: Any) -> None:
    """Write the block at offsets."""
    place = _at(sem, desc, offsets)
    memory.store(sem, place, value, boundary_check=tuple(range(len(place.offsets))))
