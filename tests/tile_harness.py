"""Compiles tile kernels for this machine and runs them in memory with guard pages, beside the interpreter."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from portkit.runtime.targets import Target, host
from portkit.runtime.tile import frontend, interpret, ir, load, verify
from portkit.runtime.tile import passes as pipeline
from portkit.runtime.tile.lower import lower
from portkit.runtime.tile.signature import Constexpr, Runtime, spec_of

PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)
_MAPS: list[mmap.mmap] = []


def guarded(array: np.ndarray[Any, Any], at_end: bool = True) -> np.ndarray[Any, Any]:
    """A copy whose last (or first) byte lies next to a page that can't be touched."""
    count = -(-max(array.nbytes, 1) // PAGE) * PAGE
    area = mmap.mmap(-1, count + 2 * PAGE)
    _MAPS.append(area)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for page in (base, base + PAGE + count):
        assert _LIBC.mprotect(ctypes.c_void_p(page), PAGE, 0) == 0
    start = PAGE + (count - array.nbytes if at_end else 0)
    copy = np.frombuffer(area, array.dtype, array.size, start).reshape(array.shape)
    copy[...] = array
    return copy


def optimise(func: ir.Function, each: bool = True) -> ir.Function:
    """The function after all passes, verified before and after, and after each one if `each`."""
    verify.verify(func)
    for step in pipeline.PIPELINE:
        func = step(func)
        if each:
            verify.verify(func)
    verify.verify(func)
    return func


class Compiled:
    """A function compiled for this machine."""

    def __init__(self, func: ir.Function, target: Target | None = None, each: bool = True) -> None:
        self.func = optimise(func, each)
        target = target or host()
        self.lowered = lower(self.func, target)
        code = load.text_to_code(self.lowered.text, target)
        address = load.link(code, [self.lowered.symbol])[self.lowered.symbol]
        self.call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
            address
        )
        self.scratch = guarded(np.zeros(-(-self.lowered.scratch_bytes // 64) * 64, np.uint8))

    def run(self, args: Sequence[Any], grid: Sequence[int]) -> None:
        """Run every program of the grid; arrays are changed in place."""
        sizes = (*grid, 1, 1)[:3]
        slots = np.zeros(3 + len(args), np.int64)
        slots[:3] = sizes
        for k, (param, arg) in enumerate(zip(self.func.params, args, strict=True)):
            slots[3 + k : 4 + k].view(np.uint8)[:] = _slot(param.type, arg)
        count = int(np.prod(sizes))
        for begin, end in ((0, count // 2), (count // 2, count)):
            self.call(slots.ctypes.data, begin, end, self.scratch.ctypes.data)


def _slot(kind: ir.Type, arg: Any) -> np.ndarray[Any, Any]:
    raw = np.zeros(8, np.uint8)
    if kind.is_pointer:
        raw.view(np.int64)[0] = arg.ctypes.data
    elif kind.dtype.is_float:
        data = np.array([arg], {16: np.float16, 32: np.float32, 64: np.float64}[kind.dtype.bits])
        raw[: data.nbytes] = data.view(np.uint8)
    else:
        raw.view(np.int64)[0] = int(arg)
    return raw


def build(kernel: Any, args: Sequence[Any], constants: dict[str, Any], noalias: bool = False) -> ir.Function:
    """The kernel's IR for some arguments; arrays are pointers."""
    values = iter(args)
    specs: list[Any] = []
    for param in kernel.params:
        if param.name in constants:
            specs.append(Constexpr(constants[param.name]))
            continue
        spec = spec_of(param, next(values), kernel.__name__)
        if noalias and isinstance(spec, Runtime) and spec.type.is_pointer:
            spec = Runtime(spec.type, ir.ParamFacts(spec.facts.divisible_by_16, False, True))
        specs.append(spec)
    return frontend.build(kernel, specs)


def agree(
    kernel: Any,
    args: Sequence[Any],
    grid: Sequence[int],
    check: Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], None] | None = None,
    noalias: bool = False,
    **constants: Any,
) -> Compiled:
    """Runs a kernel compiled and interpreted on copies of the arguments, and compares all arrays."""
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    # the arrays stand in guarded memory twice: once against its end, once against its beginning
    compiled = Compiled(build(kernel, args, constants, noalias))
    interpret.run(build(kernel, args, constants, noalias), [_flat(a) for a in expected], grid)
    for at_end in (True, False):
        actual = [guarded(a, at_end) if isinstance(a, np.ndarray) else a for a in args]
        compiled.run(actual, grid)
        for got, want in zip(actual, expected, strict=True):
            if isinstance(got, np.ndarray):
                (check or close)(got, want)
    return compiled


def _flat(a: Any) -> Any:
    return a.reshape(-1) if isinstance(a, np.ndarray) else a


def close(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    """Equal integers; floats within a few units of the last place of their type."""
    if got.dtype.kind == "f":
        eps = float(np.finfo(got.dtype).eps)
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=16 * eps, atol=16 * eps
        )
    else:
        np.testing.assert_array_equal(got, want)
