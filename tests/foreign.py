"""Kernels for other processors run by qemu: object code is linked with a driver in C by Debian's compiler.

A `Job` is one launch: what the kernel was given, and what memory held afterwards in the interpreter.
"""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tile_harness import optimise

from portkit.runtime.targets import Target
from portkit.runtime.tile import interpret, ir, load
from portkit.runtime.tile.interpret_memory import _bounds
from portkit.runtime.tile.launch import slot_format
from portkit.runtime.tile.lower import lower

DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void kernel(void *arguments, int64_t begin, int64_t end, void *scratch);
%(declarations)s
static kernel *const kernels[] = {%(names)s};

static int64_t number(FILE *file) {
    int64_t value;
    if (fread(&value, 8, 1, file) != 1) exit(3);
    return value;
}

int main(int count, char **words) {
    (void)count;
    FILE *in = fopen(words[1], "rb");
    if (!in) return 2;
    int64_t which = number(in), scratch_bytes = number(in), programs = number(in);
    int64_t buffer_count = number(in);
    char **buffers = calloc(buffer_count + 1, sizeof *buffers);
    int64_t *sizes = calloc(buffer_count + 1, 8);
    for (int64_t i = 0; i < buffer_count; i++) {
        sizes[i] = number(in);
        buffers[i] = aligned_alloc(64, (sizes[i] + 127) / 64 * 64);
        if (fread(buffers[i], 1, sizes[i], in) != (size_t)sizes[i]) return 3;
    }
    int64_t slot_count = number(in);
    int64_t *slots = aligned_alloc(64, (slot_count * 8 + 63) / 64 * 64);
    for (int64_t i = 0; i < slot_count; i++) {
        int64_t buffer = number(in), value = number(in);
        slots[i] = buffer < 0 ? value : (int64_t)(intptr_t)(buffers[buffer] + value);
    }
    void *scratch = aligned_alloc(64, (scratch_bytes + 127) / 64 * 64);
    kernels[which](slots, 0, programs, scratch);
    FILE *out = fopen(words[2], "wb");
    if (!out) return 2;
    for (int64_t i = 0; i < buffer_count; i++) fwrite(buffers[i], 1, sizes[i], out);
    return fclose(out);
}
"""


@dataclass(frozen=True)
class Job:
    """One launch: the kernel's IR, its grid, the memory before and after, and each argument's slot."""

    name: str
    func: ir.Function
    grid: tuple[int, int, int]
    before: list[bytes]
    after: list[bytes]
    slots: list[tuple[int, int]]  # buffer and offset, or -1 and a value
    dtypes: list[np.dtype[Any]]  # of the elements of each buffer
    rtol: float = 0.0  # beyond what its types are allowed


def job(
    name: str, func: ir.Function, given: Sequence[Any], grid: tuple[int, int, int], rtol: float = 0.0
) -> Job:
    """Run a launch in the interpreter, and keep all that is needed to run it elsewhere."""
    memory = _Memory()
    slots = [(-1, size) for size in grid]
    for param, value in zip(func.params, given, strict=True):
        slots.append(memory.place(value) if param.type.is_pointer else (-1, _slot(param.type, value)))
    before = memory.contents()
    interpret.run(func, given, grid)
    return Job(name, func, grid, before, memory.contents(), slots, memory.dtypes, rtol)


class _Memory:
    """The arrays behind the arguments, each piece of memory once."""

    def __init__(self) -> None:
        self.pieces: list[np.ndarray[Any, Any]] = []
        self.dtypes: list[np.dtype[Any]] = []

    def place(self, array: np.ndarray[Any, Any]) -> tuple[int, int]:
        """Which piece an array starts in, and where."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        low_end, high_end = _bounds(root)
        start = array.ctypes.data
        for number, piece in enumerate(self.pieces):
            low = piece.ctypes.data
            if low <= start < low + max(piece.nbytes, 1):
                return number, start - low
        flat = np.ctypeslib.as_array((ctypes.c_uint8 * (high_end - low_end)).from_address(low_end))
        self.pieces.append(flat)
        self.dtypes.append(array.dtype)
        return len(self.pieces) - 1, start - low_end

    def contents(self) -> list[bytes]:
        return [piece.tobytes() for piece in self.pieces]


def _slot(kind: ir.Type, value: Any) -> int:
    code = slot_format(kind)
    whole = value if code in "qQ" else float(value) if kind.dtype.is_float else bool(value)
    return int(struct.unpack("<q", struct.pack(f"<{code}", int(whole) if code in "qQ" else whole))[0])


class Machine:
    """Another processor: how to link for it, and how to run what was linked."""

    def __init__(self, target: Target, compiler: str, emulator: Sequence[str], folder: Path) -> None:
        self.target = target
        self.compiler = compiler
        self.emulator = list(emulator)
        self.folder = folder
        self.scratch: list[int] = []

    @staticmethod
    def missing(compiler: str, emulator: Sequence[str]) -> str:
        """The first program that is not installed."""
        return next((name for name in (compiler, emulator[0]) if shutil.which(name) is None), "")

    def link(self, jobs: Sequence[Job]) -> None:
        """Compile the kernels of all jobs and the driver into one program."""
        objects: list[str] = []
        for number, one in enumerate(jobs):
            func = optimise(one.func)
            func.name = f"kernel_{number}"
            lowered = lower(func, self.target)
            self.scratch.append(lowered.scratch_bytes)
            path = self.folder / f"{number}.o"
            path.write_bytes(load.text_to_code(lowered.text, self.target))
            objects.append(str(path))
        names = [f"kernel_{number}" for number in range(len(jobs))]
        text = DRIVER % {"declarations": f"extern kernel {', '.join(names)};", "names": ", ".join(names)}
        (self.folder / "driver.c").write_text(text)
        self._tool("objcopy", "--remove-section=.riscv.attributes", objects)
        command = [self.compiler, "-O1", "-static", "-o", str(self.folder / "program")]
        subprocess.run([*command, str(self.folder / "driver.c"), *objects], check=True)

    def _tool(self, name: str, option: str, objects: Sequence[str]) -> None:
        """Binutils know fewer extensions than LLVM, and refuse objects that name others."""
        if not self.compiler.startswith("riscv"):
            return
        for path in objects:
            subprocess.run([self.compiler.replace("gcc", name), option, path], check=True)

    def run(self, number: int, one: Job) -> list[np.ndarray[Any, Any]]:
        """The memory after a job, as arrays."""
        given, found = self.folder / f"{number}.in", self.folder / f"{number}.out"
        programs = int(np.prod(one.grid))
        parts = [struct.pack("<4q", number, self.scratch[number], programs, len(one.before))]
        for data in one.before:
            parts += [struct.pack("<q", len(data)), data]
        parts.append(struct.pack("<q", len(one.slots)))
        parts += [struct.pack("<2q", *slot) for slot in one.slots]
        given.write_bytes(b"".join(parts))
        command = [*self.emulator, str(self.folder / "program"), str(given), str(found)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{one.name}: exit code {done.returncode}: {done.stderr[-500:]}"
        return _taken_apart(found.read_bytes(), one)


def _taken_apart(data: bytes, one: Job) -> list[np.ndarray[Any, Any]]:
    found, start = [], 0
    for piece, dtype in zip(one.before, one.dtypes, strict=True):
        found.append(as_numbers(data[start : start + len(piece)], dtype))
        start += len(piece)
    return found


def as_numbers(data: bytes, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Memory as the numbers that it holds; what does not fill an element is left out."""
    return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
