"""Windows of arrays, behind block pointers and tensor descriptors: pointer arithmetic and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe


@dataclass(frozen=True)
class Fixed:
    """Constants of a block pointer: they stay constants when a loop carries the pointer."""

    block: tuple[int, ...]
    padding: str = ""
    is_descriptor: bool = False


class BlockPointer(NamedTuple):
    """A window of `fixed.block` elements at `offsets` of an array: scalars, which loops can carry."""

    base: ir.Value
    shape: tuple[ir.Value, ...]
    strides: tuple[ir.Value, ...]
    offsets: tuple[ir.Value, ...]
    fixed: Fixed


def scalars(sem: Semantics, values: Any, rank: int, what: str) -> tuple[ir.Value, ...]:
    items = values if isinstance(values, (tuple, list)) else (values,)
    if len(items) != rank:
        raise KernelError(f"{what} has {len(items)} entries for {rank} axes")
    found = []
    for item in items:
        value = sem.value(item)
        if value.type.is_tile or value.type.is_pointer or not value.type.dtype.is_int:
            raise KernelError(f"{what} holds scalar integers, not {describe(value)}")
        found.append(sem.cast(value, ir.I64))
    return tuple(found)


def base_pointer(base: Any) -> ir.Value:
    if not isinstance(base, ir.Value) or not base.type.is_pointer or base.type.is_tile:
        raise KernelError(f"the base is {describe(base)}, not a scalar pointer")
    return base


def _window(
    sem: Semantics, pointer: BlockPointer, checked: range | list[int]
) -> tuple[ir.Value, ir.Value | None]:
    """Pointers to the elements of a window, and the mask of those inside the array along the checked axes."""
    block, rank = pointer.fixed.block, len(pointer.fixed.block)
    address: Any = pointer.base
    mask: Any = None
    for offset, stride in zip(pointer.offsets, pointer.strides, strict=True):
        address = sem.binary("+", address, sem.binary("*", offset, stride))
    for axis in range(rank):
        row = sem.builder.value("arange", [], ir.Type(ir.I32, (block[axis],)), start=0, end=block[axis])
        inside = sem.cast(row, ir.I64)
        for other in range(rank):
            if other != axis:
                inside = sem.expand(inside, 0 if other < axis else len(inside.type.shape))
        address = sem.binary("+", address, sem.binary("*", inside, pointer.strides[axis]))
        if axis in checked:
            place = sem.binary("+", inside, pointer.offsets[axis])
            test = sem.compare("<", place, pointer.shape[axis])
            if constant(pointer.offsets[axis]) is None or constant(pointer.offsets[axis]) < 0:
                test = sem.binary("&", test, sem.compare(">=", place, 0))
            mask = test if mask is None else sem.binary("&", mask, test)
    if mask is not None:
        mask = sem.broadcast(mask, block)
    return sem.broadcast(address, block), mask


def _axes(boundary_check: Any, rank: int) -> list[int]:
    items = boundary_check if isinstance(boundary_check, (tuple, list)) else (boundary_check,)
    axes = [constant(item) for item in items]
    if any(not isinstance(a, int) or not 0 <= a < rank for a in axes):
        raise KernelError(f"boundary_check names axes of a block of rank {rank}, not {axes}")
    return axes


def load_window(sem: Semantics, pointer: BlockPointer, boundary_check: Any, padding: str) -> ir.Value:
    """Read a window; outside the array there is 0 or NaN."""
    if padding not in ("", "zero", "nan"):
        raise KernelError(f"padding_option is {padding!r}", remedy='Use "zero" or "nan".')
    address, mask = _window(sem, pointer, _axes(boundary_check, len(pointer.fixed.block)))
    result = address.type.with_element(address.type.dtype)
    if mask is None:
        return sem.builder.value("load", [address], result, has_mask=False, has_other=False)
    operands = [address, mask]
    if padding == "nan":
        operands.append(sem.const(float("nan"), result.dtype, result.shape))
    return sem.builder.value("load", operands, result, has_mask=True, has_other=padding == "nan")


def window(sem: Semantics, pointer: BlockPointer, boundary_check: Any) -> tuple[ir.Value, ir.Value | None]:
    """Pointers to the elements of a window, and the mask of those to touch (None: all)."""
    return _window(sem, pointer, _axes(boundary_check, len(pointer.fixed.block)))
