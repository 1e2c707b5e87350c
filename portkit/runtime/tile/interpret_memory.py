"""Memory of the interpreter: arrays registered under numbers, pointers as integers, every access checked."""

from __future__ import annotations

import ctypes
import linecache
from dataclasses import dataclass
from typing import Any

import numpy as np

from portkit.errors import KernelError, caret
from portkit.runtime.tile import ir
from portkit.runtime.tile.interpret_ops import (
    Array,
    narrow_bf16,
    narrow_float8,
    numpy_dtype,
    widen_bf16,
    widen_float8,
)

_SPAN = 1 << 44  # bytes set apart for each array; an offset may leave it by half of that either way


@dataclass(frozen=True)
class _Region:
    name: str
    bytes: Array
    writable: bool
    owner: Any  # keeps the memory alive


class Memory:
    """The arrays of one launch."""

    def __init__(self, kernel: str, source: str) -> None:
        self.kernel = kernel
        self.source = source
        self.regions: list[_Region] = []

    def register(self, array: Any, name: str) -> Array:
        """Make an array's memory known; gives the pointer to its first element (an i64 scalar).

        All of the memory that the array is a view of may be touched, not only the view's own elements.
        """
        if not isinstance(array, np.ndarray):
            raise KernelError(
                f"argument `{name}` of kernel `{self.kernel}` is {type(array).__name__}, not an array",
                remedy="Pass a NumPy array for each pointer.",
            )
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        low, high = _bounds(base)
        start = array.ctypes.data
        raw: Array = np.empty(0, np.uint8)
        if high > low:
            raw = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
        self.regions.append(_Region(name, raw, array.flags.writeable, array))
        return np.asarray((len(self.regions) - 1) * _SPAN + _SPAN // 2 + (start - low), np.int64)

    def address(self, pointer: Array) -> Array:
        """Pointers as addresses in memory."""
        found = np.array(pointer, np.int64)
        for number, region in enumerate(self.regions):
            inside = np.asarray(pointer) // _SPAN == number
            shift = region.bytes.ctypes.data - (number * _SPAN + _SPAN // 2)
            found = np.where(inside, found + shift, found)
        return found

    def pointer(self, address: Array) -> Array:
        """Addresses in memory as pointers; outside all arrays they lead nowhere."""
        found = np.full(np.shape(address), -1, np.int64)
        for number, region in enumerate(self.regions):
            offset = np.asarray(address, np.int64) - region.bytes.ctypes.data
            inside = (offset >= 0) & (offset < region.bytes.size)
            found = np.where(inside, number * _SPAN + _SPAN // 2 + offset, found)
        return found

    def read(self, op: ir.Op, pointer: Array, mask: Array | None) -> Array:
        """Elements at the pointers; 0 where the mask is false."""
        dtype = op.operands[0].type.dtype
        stored = numpy_dtype(dtype, stored=True)
        pointer = np.asarray(pointer)
        out = np.zeros(pointer.shape, stored)
        for region, lanes, offsets in self._lanes(op, pointer, mask, dtype):
            out[lanes] = _gather(region.bytes, offsets, stored)
        return _loaded(out, dtype)

    def write(self, op: ir.Op, pointer: Array, value: Array, mask: Array | None) -> None:
        """Write elements at the pointers where the mask is true; of lanes at one address the last wins."""
        dtype = op.operands[0].type.dtype
        pointer = np.asarray(pointer)
        data = np.asarray(value)
        if dtype == ir.BF16:
            data = narrow_bf16(data)
        elif dtype.is_float8:
            data = narrow_float8(data, dtype)
        data = np.broadcast_to(data.astype(numpy_dtype(dtype, stored=True)), pointer.shape)
        for region, lanes, offsets in self._lanes(op, pointer, mask, dtype):
            if not region.writable:
                raise self.fault(op, f"array `{region.name}` is read-only")
            _scatter(region.bytes, offsets, data[lanes])

    def _lanes(self, op: ir.Op, pointer: Array, mask: Array | None, dtype: ir.DType) -> Any:
        """Groups of active lanes by array: (array, index of the lanes, offsets in bytes), all in bounds."""
        active = np.broadcast_to(np.asarray(True if mask is None else mask), pointer.shape)
        numbers = pointer // _SPAN
        for number in np.unique(numbers[active]):
            lanes = active & (numbers == number)
            region = self.regions[int(number)] if 0 <= number < len(self.regions) else None
            offsets = pointer[lanes] - number * _SPAN - _SPAN // 2
            if region is None:
                raise self.fault(op, "a pointer is far outside every array")
            bad = (offsets < 0) | (offsets + dtype.size > region.bytes.size)
            if bad.any():
                raise self._out_of_bounds(op, region, lanes, offsets, bad, dtype)
            yield region, lanes, offsets

    def _out_of_bounds(
        self, op: ir.Op, region: _Region, lanes: Array, offsets: Array, bad: Array, dtype: ir.DType
    ) -> KernelError:
        first = int(np.flatnonzero(bad)[0])
        lane = [int(axis[first]) for axis in np.nonzero(lanes)] if lanes.ndim else []
        index, count = int(offsets[first]) // dtype.size, region.bytes.size // dtype.size
        where = f", at index {lane} of the tile" if lane else ""
        verb = "reads" if op.opcode == "load" else "writes"
        return self.fault(
            op,
            f"kernel `{self.kernel}` {verb} element {index} of `{region.name}`, "
            f"whose memory holds {count}{where}",
            "Mask the access: mask=offsets < n.",
        )

    def fault(self, op: ir.Op, message: str, remedy: str = "") -> KernelError:
        """An error at the place that an operation comes from."""
        if op.loc is None:
            return KernelError(message, place=self.kernel, remedy=remedy)
        line = _line(op.loc)
        shown = caret(line, op.loc.column) if line else ""
        return KernelError(message, place=str(op.loc), remedy=remedy, source=shown)


def _bounds(array: Array) -> tuple[int, int]:
    """First and last address of an array's elements, in bytes, the last excluded."""
    low = high = int(array.ctypes.data)
    if array.size == 0:
        return low, high
    for size, stride in zip(array.shape, array.strides, strict=True):
        low += min(0, (size - 1) * stride)
        high += max(0, (size - 1) * stride)
    return low, high + array.itemsize


def _line(loc: ir.Loc) -> str:
    return linecache.getline(loc.file, loc.line).rstrip("\n")


def _gather(raw: Array, offsets: Array, dtype: Any) -> Array:
    size = dtype.itemsize
    cells = offsets.reshape(-1, 1) + np.arange(size)
    return np.asarray(np.ascontiguousarray(raw[cells]).view(dtype).reshape(offsets.shape))


def _scatter(raw: Array, offsets: Array, data: Array) -> None:
    size = data.dtype.itemsize
    cells = offsets.reshape(-1, 1) + np.arange(size)
    raw[cells] = np.ascontiguousarray(data).reshape(-1, 1).view(np.uint8).reshape(-1, size)


def _loaded(stored: Array, dtype: ir.DType) -> Array:
    if dtype == ir.BF16:
        return widen_bf16(stored)
    if dtype.is_float8:
        return widen_float8(stored, dtype)
    return np.asarray(stored != 0) if dtype.is_bool else stored
