"""Functions that take tiles apart, put them together, and read arrays in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from portkit.runtime.tile import ir
from portkit.runtime.tile.language._base import outside, tensor


def join(a: Any, b: Any) -> tensor:
    """Two tiles as index 0 and 1 of a new last axis."""
    outside("join")


def split(a: tensor) -> tuple[tensor, tensor]:
    """The two slices of a last axis of size 2."""
    outside("split")


def interleave(a: Any, b: Any) -> tensor:
    """Elements of two tiles in turn along the last axis."""
    outside("interleave")


def flip(x: tensor, dim: int | None = None) -> tensor:
    """The elements in reverse order along an axis (the last one)."""
    outside("flip")


def sort(x: tensor, dim: int | None = None, descending: bool = False) -> tensor:
    """The elements in order along an axis (the last one)."""
    outside("sort")


def topk(x: tensor, k: int, dim: int | None = None, descending: bool = True) -> tensor:
    """The k largest (smallest) elements along an axis (the last one), in order; k is a power of two."""
    outside("topk")


def map_elementwise(
    scalar_fn: Callable[..., Any], *args: tensor, pack: int = 1
) -> tensor | tuple[tensor, ...]:
    """A @jit function of scalars on each element of tiles, or on `pack` neighbours at a time."""
    outside("map_elementwise")


def gather(src: tensor, index: tensor, axis: int) -> tensor:
    """The elements of a tile that indices along one axis name."""
    outside("gather")


def histogram(input: tensor, num_bins: int, mask: Any = None) -> tensor:
    """How many elements have each of the values 0, ..., num_bins - 1, i32[num_bins]."""
    outside("histogram")


def reduce(input: Any, axis: int | None, combine_fn: Callable[..., Any], keep_dims: bool = False) -> Any:
    """Reduce a tile, or a tuple of tiles, with a @jit function that is associative."""
    outside("reduce")


def cat(input: tensor, other: tensor, can_reorder: bool = False, dim: int = 0) -> tensor:
    """One tile after the other along an axis."""
    outside("cat")


def xor_sum(input: tensor, axis: int | None = None, keep_dims: bool = False) -> tensor:
    """Bitwise exclusive or over an axis of integers or booleans."""
    outside("xor_sum")


def associative_scan(input: Any, axis: int, combine_fn: Callable[..., Any], reverse: bool = False) -> Any:
    """Running combinations of a tile, or a tuple of tiles, by a @jit function that is associative."""
    outside("associative_scan")


def cumsum(input: tensor, axis: int = 0, reverse: bool = False, dtype: ir.DType | None = None) -> tensor:
    """Running sums along an axis."""
    outside("cumsum")


def cumprod(input: tensor, axis: int = 0, reverse: bool = False) -> tensor:
    """Running products along an axis."""
    outside("cumprod")


def make_block_ptr(
    base: tensor,
    shape: Sequence[Any],
    strides: Sequence[Any],
    offsets: Sequence[Any],
    block_shape: Sequence[int],
    order: Sequence[int],
) -> Any:
    """A window of an array, for tl.load, tl.store and tl.advance."""
    outside("make_block_ptr")


def advance(base: Any, offsets: Sequence[Any]) -> Any:
    """A block pointer moved by offsets."""
    outside("advance")


def make_tensor_descriptor(
    base: tensor,
    shape: Sequence[Any],
    strides: Sequence[Any],
    block_shape: Sequence[int],
    padding_option: str = "zero",
) -> Any:
    """An array read (`.load(offsets)`) and written (`.store(offsets, value)`) in blocks."""
    outside("make_tensor_descriptor")


def load_tensor_descriptor(desc: Any, offsets: Sequence[Any]) -> tensor:
    """The block at offsets; padding outside the array."""
    outside("load_tensor_descriptor")


def store_tensor_descriptor(desc: Any, offsets: Sequence[Any], value: tensor) -> None:
    """Write the block at offsets, inside the array only."""
    outside("store_tensor_descriptor")
