"""The quick launch: arguments checked and packed by compiled code, for kernels too short for threads.

It relies on the layout of CPython's and NumPy's objects, so it is tried on an array first, and left out
where the trial fails, on other systems than Linux, and where Python runs without its global lock.  Everything
that it does not know it leaves to the launcher in Python.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from portkit.runtime.tile import fast_ir, ir
from portkit.runtime.tile.describe import plain_tensors
from portkit.runtime.tile.signature import ArgSpec, Constexpr, Group

LIMIT_NS = 20_000
MAX_ENTRIES = 8  # for one kernel: they are searched one after another


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Dispatcher:
    """The specialisations of one kernel that the quick launch knows.

    `call(grid, *values)` runs one and gives None, or gives NotImplemented and has done nothing.
    """

    def __init__(self) -> None:
        shared = (None, NotImplemented, int, tuple, "dtype", "is_cpu", "data_ptr", True)
        self._kept: list[Any] = [*map(_interned, shared)]
        self._head = (ctypes.c_size_t * fast_ir.HEAD_FIELDS)(0, *map(id, self._kept))
        self._entries = 0
        self.call: Callable[..., Any] = _function(ctypes.addressof(self._head))

    def add(self, launcher: Any, specs: Sequence[ArgSpec], values: Sequence[Any]) -> None:
        """Let calls with arguments like these run by `launcher`'s code; leaves out what it can't check."""
        records = [
            _record(s, v, i in launcher.stored) for i, (s, v) in enumerate(zip(specs, values, strict=True))
        ]
        if self._entries >= MAX_ENTRIES or len(values) > fast_ir.MAX_ARGUMENTS or None in records:
            return
        scratch = ctypes.create_string_buffer(launcher.stride + 64)
        fields = [
            self._head[0],
            len(values),
            launcher.symbol,
            (ctypes.addressof(scratch) + 63) // 64 * 64,
            ctypes.addressof(launcher.cost),
            0,
            *(field for record in records if record for field in record),
        ]
        entry = (ctypes.c_size_t * len(fields))(*fields)
        kept = [
            getattr(v, "dtype", None) if s.__class__ is not Constexpr else v
            for s, v in zip(specs, values, strict=True)
        ]
        self._kept += [entry, scratch, launcher, kept]
        self._head[0] = ctypes.addressof(entry)
        self._entries += 1


def _interned(value: Any) -> Any:
    return sys.intern(value) if isinstance(value, str) else value


def _record(spec: ArgSpec, value: Any, stored: bool) -> tuple[int, int, int, int] | None:
    """What an argument must be to fit: kind, two pointers, facts; None where compiled code can't tell."""
    kind = type(value)
    if isinstance(spec, Constexpr):
        if kind is int and -(2**63) <= value < 2**63:
            return fast_ir.CONSTANT, id(int), value & (2**64 - 1), 0
        return fast_ir.SAME, id(value), 0, 0
    if isinstance(spec, Group):
        return None
    if spec.type.is_pointer:
        if kind is np.ndarray:
            aligned = value.ctypes.data % 16 == 0
            return fast_ir.ARRAY, id(kind), id(value.dtype), aligned | stored << 1
        if kind in plain_tensors():
            return fast_ir.TENSOR, id(kind), id(value.dtype), int(value.data_ptr() % 16 == 0)
    elif kind is int and spec.type.dtype.is_int and spec.type.dtype != ir.U64:
        small = -(2**31) <= value < 2**31
        return fast_ir.INT, id(kind), 0, small | (value % 16 == 0) << 1 | (value == 1) << 2
    elif kind is float and spec.type.dtype == ir.F32:
        return fast_ir.FLOAT, id(kind), 0, 0
    elif kind is bool:
        return fast_ir.BOOL, id(kind), id(True), 0
    return None


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether the quick launch works in this process."""
    if sys.platform != "linux" or sys.implementation.name != "cpython" or object.__basicsize__ != 16:
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    array = np.zeros(3, np.float64)[1:]
    array.flags.writeable = False
    return _fields(array) == (array.ctypes.data, id(array.dtype), False) and _fields(np.zeros(1))[2]


def _fields(array: np.ndarray[Any, Any]) -> tuple[int, int, bool]:
    """Address, dtype object and writability, where the compiled code looks for them."""
    words = (ctypes.c_size_t * 9).from_address(id(array))
    return words[2], words[7], bool(words[8] & 0x400)


@lru_cache(maxsize=1)
def _address() -> int:
    from portkit.runtime.tile import load

    pythonapi: Any = ctypes.pythonapi
    symbols = {
        name: ctypes.cast(getattr(pythonapi, name), ctypes.c_void_p).value or 0 for name in fast_ir.SYMBOLS
    }
    return load.cached("fast", fast_ir.text(LIMIT_NS), ["portkit_fast"], symbols)["portkit_fast"]


def _function(head: int) -> Callable[..., Any]:
    """A Python function that calls the compiled one with the head's address."""
    method = _MethodDef(b"launch", _address(), 0x80, None)  # METH_FASTCALL
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # CPython keeps its address
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = new(ctypes.addressof(method), head, None)
    return function
