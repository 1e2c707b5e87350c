"""Reading and writing memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Operand, Semantics, describe, is_pointer
from portkit.runtime.tile.frontend.windows import BlockPointer, load_window, window

_NO_MASK = "a block pointer takes no mask"
_NO_BLOCK = "boundary_check and padding_option belong to block pointers"


def _pointer(pointer: object, what: str) -> ir.Value:
    if not isinstance(pointer, ir.Value) or not is_pointer(pointer):
        raise KernelError(
            f"tl.{what} needs pointers, not {describe(pointer)}",
            remedy="Add an integer offset to a pointer argument of the kernel: ptr + offsets.",
        )
    return pointer


def _mask(sem: Semantics, mask: Operand) -> ir.Value:
    value = sem.value(mask)
    if value.type.is_pointer or not value.type.dtype.is_int:
        raise KernelError(f"a mask holds booleans, not {value.type.element}", remedy="Compare: offs < n.")
    return sem.truth(value)


def _fit(sem: Semantics, value: ir.Value, pointer: ir.Value, what: str) -> ir.Value:
    if value.type.is_tile and not pointer.type.is_tile:
        raise KernelError(
            f"{what} is a tile of shape {list(value.type.shape)}, but the pointer is a scalar",
            remedy="Offset the pointer by a tile, e.g. ptr + tl.arange(0, BLOCK).",
        )
    while value.type.is_tile and len(value.type.shape) < len(pointer.type.shape):
        value = sem.expand(value, 0)
    return sem.broadcast(value, pointer.type.shape)


def load(
    sem: Semantics,
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: tuple[int, ...] = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> ir.Value:
    """Elements at the pointers."""
    if isinstance(pointer, BlockPointer):
        if mask is not None or other is not None:
            raise KernelError(_NO_MASK, remedy="Use boundary_check= and padding_option=.")
        return load_window(sem, pointer, boundary_check, padding_option)
    pointer = _pointer(pointer, "load")
    if boundary_check or padding_option:
        raise KernelError(_NO_BLOCK, remedy="Use mask= and other=.")
    result = pointer.type.with_element(pointer.type.dtype)
    if mask is None:
        if other is not None:
            raise KernelError("tl.load has `other` but no `mask`", remedy="`other` needs a mask.")
        return sem.builder.value("load", [pointer], result, has_mask=False, has_other=False)
    test = _mask(sem, mask)
    if test.type.is_tile and pointer.type.is_tile:
        pointer, test = sem.same_shape(pointer, test)
        result = result.with_shape(pointer.type.shape)
    test = _fit(sem, test, pointer, "the mask")
    operands = [pointer, test]
    if other is not None:
        operands.append(_fit(sem, sem.cast(sem.value(other), pointer.type.dtype), pointer, "`other`"))
    return sem.builder.value("load", operands, result, has_mask=True, has_other=other is not None)


def store(
    sem: Semantics,
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: tuple[int, ...] = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write at the pointers."""
    if isinstance(pointer, BlockPointer):
        if mask is not None:
            raise KernelError(_NO_MASK, remedy="Use boundary_check=.")
        pointer, mask = window(sem, pointer, boundary_check)
        boundary_check = ()
    pointer = _pointer(pointer, "store")
    if boundary_check:
        raise KernelError(_NO_BLOCK, remedy="Use mask=.")
    operands = _written(sem, pointer, value, mask)
    sem.builder.add("store", operands, [], has_mask=mask is not None)


def _written(sem: Semantics, pointer: ir.Value, value: Any, mask: Any) -> list[ir.Value]:
    source = sem.value(value)
    if source.type.is_pointer:
        raise KernelError("portkit does not store pointers", remedy="Load the value first.")
    source = sem.cast(source, pointer.type.dtype)
    operands = [pointer, source]
    if mask is not None:
        operands.append(_mask(sem, mask))
    if pointer.type.is_tile:
        return sem.same_shape(*operands)
    return [pointer, *(_fit(sem, v, pointer, w) for v, w in zip(operands[1:], _NAMES, strict=False))]


_NAMES = ("the value", "the mask")


def _atomic(
    name: str,
    semantics: Semantics,
    /,
    pointer: ir.Value,
    val: Any,
    mask: Any = None,
    sem: str | None = None,
    scope: str | None = None,
) -> ir.Value:
    pointer = _pointer(pointer, name)
    dtype = pointer.type.dtype
    if name.endswith(("and", "or", "xor")) and not dtype.is_int:
        raise KernelError(f"tl.{name} needs integers in memory, not {dtype}")
    operands = _written(semantics, pointer, val, mask)
    return semantics.builder.value(name, operands, operands[1].type, has_mask=mask is not None)


TABLE: dict[str, Callable[..., ir.Value]] = {
    name: partial(_atomic, name)
    for name in (
        *("atomic_add", "atomic_max", "atomic_min", "atomic_xchg"),
        *("atomic_and", "atomic_or", "atomic_xor"),
    )
}


def atomic_cas(
    semantics: Semantics,
    /,
    pointer: ir.Value,
    cmp: Any,
    val: Any,
    sem: str | None = None,
    scope: str | None = None,
) -> ir.Value:
    """Write where memory holds what is expected; gives what was there."""
    pointer = _pointer(pointer, "atomic_cas")
    expected = _written(semantics, pointer, cmp, None)[1]
    operands = [*_written(semantics, pointer, val, None), expected]
    address, value, expected = semantics.same_shape(*operands) if pointer.type.is_tile else operands
    return semantics.builder.value("atomic_cas", [address, expected, value], value.type)
