"""Functions of the tile language that make, move and shape tiles: `frontend/library` has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portkit.runtime.tile import ir
from portkit.runtime.tile.language._base import outside, tensor

_Shape = Sequence[int]


# --- the program and its grid ----------------------------------------------------------------------


def program_id(axis: int) -> tensor:
    """The position of this program in the grid along an axis (0, 1 or 2), i32."""
    outside("program_id")


def num_programs(axis: int) -> tensor:
    """The size of the grid along an axis (0, 1 or 2), i32."""
    outside("num_programs")


class range:
    """A loop over start, start + step, ... below end; hints about pipelining are accepted and ignored."""

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: int | None = None,
        loop_unroll_factor: int | None = None,
        disallow_acc_multi_buffer: bool = False,
        flatten: bool = False,
        warp_specialize: bool = False,
        disable_licm: bool = False,
    ) -> None:
        outside("range")


class static_range:
    """A loop over constants that is unrolled when the kernel is compiled."""

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        outside("static_range")


# --- making tiles ----------------------------------------------------------------------------------


def arange(start: int, end: int) -> tensor:
    """The integers start, ..., end - 1 as i32[end - start]; the size is a power of two."""
    outside("arange")


def zeros(shape: _Shape, dtype: ir.DType) -> tensor:
    """A tile of zeros."""
    outside("zeros")


def zeros_like(input: tensor) -> tensor:
    """A tile of zeros with the shape and dtype of another."""
    outside("zeros_like")


def full(shape: _Shape, value: Any, dtype: ir.DType) -> tensor:
    """A tile filled with one scalar."""
    outside("full")


# --- memory ----------------------------------------------------------------------------------------


def load(
    pointer: tensor,
    mask: Any = None,
    other: Any = None,
    boundary_check: tuple[int, ...] = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> tensor:
    """The elements at the pointers; where the mask is false, `other` (or 0), and memory is not touched."""
    outside("load")


def store(
    pointer: tensor,
    value: Any,
    mask: Any = None,
    boundary_check: tuple[int, ...] = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write the value, cast to the element type, at the pointers where the mask is true."""
    outside("store")


def atomic_add(
    pointer: tensor, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Add to memory indivisibly; gives what was there before."""
    outside("atomic_add")


def atomic_max(
    pointer: tensor, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Write the larger of what is in memory and the value indivisibly; gives what was there before."""
    outside("atomic_max")


def atomic_min(
    pointer: tensor, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Write the smaller of what is in memory and the value indivisibly; gives what was there before."""
    outside("atomic_min")


def atomic_and(
    pointer: tensor, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Bitwise and with memory indivisibly; gives what was there before."""
    outside("atomic_and")


def atomic_or(
    pointer: tensor, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Bitwise or with memory indivisibly; gives what was there before."""
    outside("atomic_or")


def atomic_xor(
    pointer: tensor, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Bitwise exclusive or with memory indivisibly; gives what was there before."""
    outside("atomic_xor")


def atomic_xchg(
    pointer: tensor, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Exchange with memory indivisibly; gives what was there before."""
    outside("atomic_xchg")


def atomic_cas(
    pointer: tensor, cmp: Any, val: Any, sem: str | None = None, scope: str | None = None
) -> tensor:
    """Write `val` where memory holds `cmp`, indivisibly; gives what was there before."""
    outside("atomic_cas")


# --- shapes ----------------------------------------------------------------------------------------


def expand_dims(input: tensor, axis: Any) -> tensor:
    """Insert axes of size 1."""
    outside("expand_dims")


def broadcast_to(input: tensor, *shape: Any) -> tensor:
    """Repeat a tile along its axes of size 1 until it has the shape."""
    outside("broadcast_to")


def broadcast(input: tensor, other: tensor) -> tuple[tensor, tensor]:
    """Both tiles, broadcast to one shape."""
    outside("broadcast")


def reshape(input: tensor, *shape: Any, can_reorder: bool = False) -> tensor:
    """The same elements, in row-major order, in another shape."""
    outside("reshape")


def view(input: tensor, *shape: Any) -> tensor:
    """As reshape."""
    outside("view")


def ravel(x: tensor) -> tensor:
    """The elements in row-major order as one row."""
    outside("ravel")


def trans(input: tensor, *dims: Any) -> tensor:
    """Permute the axes; without `dims`, swap the two of a matrix."""
    outside("trans")


def permute(input: tensor, *dims: Any) -> tensor:
    """Permute the axes."""
    outside("permute")


# --- values ----------------------------------------------------------------------------------------


def where(condition: Any, x: Any, y: Any) -> tensor:
    """x where the condition is true, else y; both are always computed."""
    outside("where")


def cast(input: Any, dtype: Any, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> tensor:
    """The values in another dtype (also `x.to(dtype)`), or the same bits under a dtype of that width."""
    outside("cast")


def logical_and(input: tensor, other: Any) -> tensor:
    """Both are true, i1."""
    outside("logical_and")


def logical_or(input: tensor, other: Any) -> tensor:
    """At least one is true, i1."""
    outside("logical_or")


def dot(
    input: tensor,
    other: tensor,
    acc: tensor | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: ir.DType = ir.F32,
) -> tensor:
    """Matrix product a[m, k] · b[k, n] (+ acc[m, n]), accumulated in f32 (i32 for integers)."""
    outside("dot")


def dot_scaled(
    lhs: tensor,
    lhs_scale: Any,
    lhs_format: str,
    rhs: tensor,
    rhs_scale: Any,
    rhs_format: str,
    acc: tensor | None = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: ir.DType = ir.F32,
) -> tensor:
    """Matrix product of e2m1 (two in a byte), e4m3, e5m2, fp16 or bf16, with a scale for each group along K.

    `lhs_scale` is [M, K / group], `rhs_scale` [N, K / group], or None: u8 are exponents of 2 with bias 127.
    """
    outside("dot_scaled")


# --- reductions ------------------------------------------------------------------------------------


def sum(
    input: tensor, axis: int | None = None, keep_dims: bool = False, dtype: ir.DType | None = None
) -> tensor:
    """Sum over an axis (all when None); integers under 32 bits are summed in 32."""
    outside("sum")


def max(
    input: tensor,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tensor:
    """Largest element over an axis, NaN ignored; 16-bit floats give f32."""
    outside("max")


def min(
    input: tensor,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tensor:
    """Smallest element over an axis, NaN ignored; 16-bit floats give f32."""
    outside("min")


def argmax(input: tensor, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """Index of the (first) largest element over an axis, i32."""
    outside("argmax")


def argmin(input: tensor, axis: int, tie_break_left: bool = True, keep_dims: bool = False) -> tensor:
    """Index of the (first) smallest element over an axis, i32."""
    outside("argmin")


def reduce_or(input: tensor, axis: int | None = None, keep_dims: bool = False) -> tensor:
    """Bitwise or over an axis of integers or booleans."""
    outside("reduce_or")


# --- hints and checks ------------------------------------------------------------------------------


def static_assert(cond: Any, msg: str = "") -> None:
    """Stop compiling when a constant condition is false."""
    outside("static_assert")


def static_print(*values: Any, sep: str = " ", end: str = "\n") -> None:
    """Print constants, and the types of values, while compiling (to stderr)."""
    outside("static_print")


def device_assert(cond: Any, msg: str = "", mask: Any = None) -> None:
    """End the launch with an error where the condition is false and the mask is not.

    Checked as in Triton: under `@jit(debug=True)`, in launches with `debug=True`, with TRITON_DEBUG=1, and
    in the interpreter.
    """
    outside("device_assert")


def device_print(prefix: str, *args: Any, hex: bool = False) -> None:
    """Print values while the kernel runs: a line for each element, with its program and index."""
    outside("device_print")


def multiple_of(input: tensor, values: Any) -> tensor:
    """A promise about divisibility: accepted, not needed."""
    outside("multiple_of")


def max_contiguous(input: tensor, values: Any) -> tensor:
    """A promise about contiguity: accepted, not needed."""
    outside("max_contiguous")


def max_constancy(input: tensor, values: Any) -> tensor:
    """A promise about equal elements: accepted, not needed."""
    outside("max_constancy")


def assume(cond: Any) -> None:
    """A promise that a condition holds: accepted, not needed."""
    outside("assume")


def debug_barrier() -> None:
    """Accepted: a program of the tile language has one thread of control."""
    outside("debug_barrier")
