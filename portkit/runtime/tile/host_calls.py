"""What kernels ask of the host while they run: printing values, and telling of assertions that do not hold.

Compiled code calls `portkit_host(text, block)`: `text` is JSON that says what it is about, `block` holds the
program's place in the grid (three 8-byte slots) and the addresses of the values' tiles.
"""

from __future__ import annotations

import ctypes
import json
import linecache
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from portkit.errors import KernelError, caret

SYMBOL = "portkit_host"
_FAILED: list[KernelError] = []
_LOCK = threading.Lock()


def shown(prefix: str, hexadecimal: bool, values: Sequence[Any], program: Sequence[int]) -> str:
    """The lines that `tl.device_print` gives for one program: one for each element, as Triton has them."""
    place = f"pid ({', '.join(str(int(n)) for n in program)})"
    lines = []
    for number, value in enumerate(values):
        array = np.asarray(value)
        operand = f"(operand {number}) " if len(values) > 1 else ""
        for index in np.ndindex(array.shape):
            where = f" idx ({', '.join(map(str, index))})" if index else " idx ()"
            lines.append(f"{place}{where}{prefix}{operand}{_number(array[index], hexadecimal)}\n")
    return "".join(lines) or f"{place} idx (){prefix.rstrip()}\n"


def _number(value: Any, hexadecimal: bool) -> str:
    if hexadecimal:
        bits = np.asarray(value).view(f"u{value.dtype.itemsize}") if value.dtype != bool else int(value)
        return f"0x{int(bits):0{2 * value.dtype.itemsize}x}"
    return str(int(value)) if value.dtype == bool else str(value)


def failed(message: str, place: str, kernel: str, program: Sequence[int]) -> KernelError:
    """The error of an assertion that does not hold."""
    file, _, rest = place.rpartition(":")[0].rpartition(":")
    line = linecache.getline(file, int(rest)).rstrip("\n") if rest.isdigit() else ""
    column = place.rpartition(":")[2]
    told = f"assertion failed in program ({', '.join(str(int(n)) for n in program)}) of kernel `{kernel}`"
    return KernelError(
        f"{told}: {message}" if message else told,
        place=place,
        source=caret(line, int(column)) if line and column.isdigit() else "",
    )


def check() -> None:
    """Raise what an assertion of a kernel that has ended found."""
    with _LOCK:
        found = list(_FAILED)
        _FAILED.clear()
    if found:
        raise found[0]


def _called(text: bytes, block: int) -> None:
    """What compiled code calls, on any thread."""
    about: dict[str, Any] = json.loads(text)
    slots = (ctypes.c_int64 * 3).from_address(block)
    program = [int(n) & 0xFFFFFFFF for n in slots]
    if "message" in about:
        error = failed(about["message"], about["place"], about["kernel"], program)
        with _LOCK:
            _FAILED.append(error)
        return
    tiles = about["tiles"]
    addresses = (ctypes.c_size_t * len(tiles)).from_address(block + 24) if tiles else ()
    values = [_tile(where, *tile) for where, tile in zip(addresses, tiles, strict=True)]
    sys.stdout.write(shown(about["prefix"], about["hex"], values, program))


def _tile(address: int, dtype: str, shape: list[int], stored: str) -> Any:
    """A tile in memory as an array of its own type; one without axes is a scalar."""
    count = int(np.prod(shape, dtype=np.int64))
    kept = np.dtype(stored)
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * (count * kept.itemsize)).from_address(address))
    return raw.view(kept).reshape(shape).astype(dtype)


@lru_cache(maxsize=1)
def address() -> int:
    """The address of `portkit_host`."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_size_t)(_called)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))  # code that calls it is never freed
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def symbols(code: bytes) -> dict[str, int]:
    """The addresses that object code needs of this module."""
    return {SYMBOL: address()} if SYMBOL.encode() in code else {}


def constant(name: str, text: str) -> str:
    """The line of LLVM IR that defines a text."""
    data = text.encode() + b"\0"
    body = "".join(f"\\{byte:02x}" for byte in data)
    return f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}"'
