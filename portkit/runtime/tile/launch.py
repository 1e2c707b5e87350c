"""From a compiled kernel to a running one: arguments packed into a job, the job run over threads."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
from collections.abc import Sequence
from time import perf_counter_ns as clock
from typing import TYPE_CHECKING, Any

import numpy as np

from portkit.errors import KernelError
from portkit.runtime.targets import host
from portkit.runtime.tile import host_calls, ir, load, team_ir, threads
from portkit.runtime.tile.compile import Compiled, stages
from portkit.runtime.tile.fast import LIMIT_NS
from portkit.runtime.tile.signature import ArgSpec, is_torch_tensor, leaves

if TYPE_CHECKING:
    from portkit.runtime.tile.jit import JitFunction

PARALLEL_NS = LIMIT_NS  # less work than this stays on the launching thread
CHUNKS_PER_THREAD = 8
ALIGNMENT = 64
_ndarray = np.ndarray

_SCALARS = {ir.I1: "?7x", ir.F16: "e6x", ir.F32: "f4x", ir.F64: "d"}


def slot_format(kind: ir.Type) -> str:
    """The `struct` code of an argument's 8-byte slot."""
    if isinstance(kind.element, ir.Pointer):
        return "Q"
    return _SCALARS.get(kind.element) or ("q" if kind.element.is_signed else "Q")


class _Arena(threading.local):
    """Scratch memory of one launching thread for all threads of its jobs; grows on demand."""

    size = 0
    address = 0
    memory: Any = None

    def at_least(self, size: int) -> int:
        """The 64-byte aligned address of at least `size` bytes."""
        if size > self.size:
            self.memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
            start = int(self.memory.ctypes.data)
            self.address = (start + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
            self.size = size
        return self.address


_ARENA = _Arena()


class Launcher:
    """One specialisation of a kernel, loaded.

    `where` holds the places of the run-time arguments among all arguments, `names` the names of all.
    Remembers how long a block program took, so that short launches stay on one thread.
    """

    def __init__(
        self,
        compiled: Compiled,
        where: Sequence[int],
        names: Sequence[str],
        origin: tuple[Any, Any] | None = None,
    ) -> None:
        self.compiled = compiled
        self.origin = origin  # the kernel, and the specifications of its arguments
        self.names = names
        self.stored = tuple(where[i] for i in sorted(compiled.stored))
        entry = compiled.entry
        self.stride = -(-entry.scratch_bytes // ALIGNMENT) * ALIGNMENT
        codes = "".join(slot_format(kind) for kind in compiled.params)
        pack = struct.Struct(f"={team_ir.HEADER_SLOTS + 3}q{codes}").pack
        needed = host_calls.symbols(entry.code)
        self.calls_host = bool(needed)
        self.symbol = load.link(entry.code, [entry.symbol], needed)[entry.symbol]
        self.pack = functools.partial(pack, self.symbol)
        self.alone = threads.current().run
        self.cost = ctypes.c_double(float("inf"))  # nanoseconds of one program

    @property
    def program_ns(self) -> float:
        """Nanoseconds that a block program took when the kernel last ran."""
        return self.cost.value

    @program_ns.setter
    def program_ns(self, value: float) -> None:
        self.cost.value = value

    def __call__(self, grid: tuple[int, int, int], numbers: Sequence[Any], values: Sequence[Any]) -> None:
        """Run every block program of the grid.

        `numbers` are the run-time arguments (addresses for arrays), `values` all arguments as given.
        Raises KernelError when the kernel stores to an array that is read-only.
        """
        for index in self.stored:
            value = values[index]
            if type(value) is _ndarray and not value.flags.writeable:
                raise self._read_only(index)
        x, y, z = grid
        total = x * y * z
        if total <= 0:
            return
        if total == 1 or total * self.cost.value <= PARALLEL_NS:
            scratch = _ARENA.at_least(self.stride) if self.stride else 0
            job = self._job(total, total, 1, scratch, 0, 0, 0, x, y, z, *numbers)
            start = clock()
            self.alone(job)
            self.cost.value = (clock() - start) / total
            if self.calls_host:
                host_calls.check()
            return
        team = threads.current()
        count = min(team.size(), total)
        chunk = -(-total // (count * CHUNKS_PER_THREAD))
        scratch = _ARENA.at_least(self.stride * count) if self.stride else 0
        job = self._job(total, chunk, count, scratch, self.stride, team.pool, 0, x, y, z, *numbers)
        start = clock()
        team.run(job)
        self.cost.value = (clock() - start) * count / total
        if self.calls_host:
            host_calls.check()

    def stages(self) -> dict[str, str]:
        """The stages of compiling as text, made once more."""
        assert self.origin is not None
        return stages(*self.origin, host())

    def _job(self, *numbers: Any) -> bytes:
        try:
            return self.pack(*numbers)
        except OverflowError:  # a float beyond f32 becomes infinite, as in C
            floats = (ctypes.c_float(n).value if type(n) is float else n for n in numbers)
            return self.pack(*floats)

    def _read_only(self, index: int) -> KernelError:
        return KernelError(
            f"argument `{self.names[index]}` of kernel `{self.compiled.name}` is a read-only array, "
            "and the kernel stores to it",
            remedy="Pass a copy: array.copy().",
        )


class Interpreter:
    """One specialisation of a kernel for the NumPy interpreter; called like a `Launcher`."""

    def __init__(self, kernel: JitFunction, specs: Sequence[ArgSpec]) -> None:
        from portkit.runtime.tile import frontend, verify

        self.specs = specs
        self.func = frontend.build(kernel, specs)
        verify.verify(self.func)

    def __call__(self, grid: tuple[int, int, int], numbers: Sequence[Any], values: Sequence[Any]) -> None:
        """Run every block program of the grid, one after another."""
        from portkit.runtime.tile import interpret

        given = [v for s, value in zip(self.specs, values, strict=True) for _, v in leaves(s, value)]
        interpret.run(self.func, [as_array(value) for value in given], grid)


def _memory(tensor: Any, address: int) -> Any:
    """The memory of a tensor from an address inside it on, as bytes."""
    torch = sys.modules["torch"]
    storage = tensor.untyped_storage()
    raw = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    return raw[address - storage.data_ptr() :]


def as_array(value: Any) -> Any:
    """A NumPy view of a torch tensor (bf16 as uint16, 8-bit floats as uint8); anything else as it is."""
    if not is_torch_tensor(value):
        # a view that a library defines
        bases = (getattr(value, name, None) for name in ("base", "_base") if hasattr(value, "data_ptr"))
        base = next((tensor for tensor in bases if is_torch_tensor(tensor)), None)
        return value if base is None else _memory(base, value.data_ptr())
    torch = sys.modules["torch"]
    value = value.detach()
    if value.dtype.is_floating_point and value.dtype.itemsize == 1:
        return value.view(torch.uint8).numpy()
    return (value.view(torch.uint16) if value.dtype is torch.bfloat16 else value).numpy()
