"""The kernels of every operator, and the corpus, on AArch64 under qemu: as in the interpreter.

Needs qemu-user and Debian's cross compiler (`apt-get install qemu-user gcc-aarch64-linux-gnu`); without
them it is skipped.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import kernel_cases
import numpy as np
import pytest
from foreign import Job, Machine, as_numbers, job

from portkit.runtime import ops
from portkit.runtime.targets import Target, targets
from portkit.runtime.tile import frontend, launch, signature
from portkit.runtime.tile.jit import interpreted

LAUNCHES = 2  # of each kernel with the same types of arguments
LARGEST = 1 << 15  # elements: the interpreter and the emulator are slow


@dataclass(frozen=True)
class Processor:
    """What a test runs on."""

    name: str
    target: Target
    compiler: str
    emulator: tuple[str, ...]


def _processors() -> list[Processor]:
    emulator = ("qemu-aarch64", "-cpu", "max")
    return [Processor("aarch64", targets()["aarch64"], "aarch64-linux-gnu-gcc", emulator)]


@lru_cache(maxsize=1)
def jobs() -> tuple[Job, ...]:
    """Launches of the corpus, and those that the operators make on their samples, forward and backward."""
    found: list[Job] = []
    for case in kernel_cases.cases():
        values, specs = kernel_cases.specs(case)
        kernel = case["kernel"]
        func = frontend.build(kernel, specs)
        grid = (*case["grid"], 1, 1)[:3]
        given = [v for s, value in zip(specs, values, strict=True) for _, v in signature.leaves(s, value)]
        arrays = [launch.as_array(v) for v in given]
        found.append(job(str(case["id"]), func, arrays, grid, case.get("rtol", 0.0)))
    return (*found, *_of_operators())


def _of_operators() -> list[Job]:
    torch = pytest.importorskip("torch")
    found: list[Job] = []
    seen: Counter[Any] = Counter()

    about: list[str] = []

    def recorded(self: launch.Interpreter, grid: Any, numbers: Any, values: Any) -> None:
        pairs = zip(self.specs, values, strict=True)
        arrays = [launch.as_array(v) for spec, value in pairs for _, v in signature.leaves(spec, value)]
        kind = self.func.name, signature.signature_key(self.specs)
        seen[kind] += 1
        made = job(f"{' '.join(about)}: {self.func.name}", self.func, arrays, grid)
        if seen[kind] <= LAUNCHES:
            found.append(made)

    patch = pytest.MonkeyPatch()
    with patch.context() as context, interpreted():
        context.setattr(launch.Interpreter, "__call__", recorded)
        context.setenv("PORTKIT_FORCE", "tile")
        for name, operator in ops.operators().items():
            for sample in operator.samples():
                about[:] = name, sample.id
                for dtype in (torch.float32, torch.float16):
                    _call(torch, operator, sample, dtype)
    return found


def _call(torch: Any, operator: Any, sample: Any, dtype: Any) -> None:
    """Forward and backward, with small arguments only."""

    def tensor(index: int, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        made = torch.from_numpy(np.array(value))
        if not made.is_floating_point():
            return made
        return made.to(dtype).requires_grad_(index in sample.differentiable)

    sizes = [a.size for a in [*sample.args, *sample.kwargs.values()] if isinstance(a, np.ndarray)]
    if max(sizes, default=0) > LARGEST:
        return
    args = [tensor(index, value) for index, value in enumerate(sample.args)]
    kwargs = {key: tensor(-1, value) for key, value in sample.kwargs.items()}
    result = operator.function(*args, **kwargs)
    result.sum().backward()


@pytest.mark.parametrize("processor", _processors(), ids=lambda p: p.name)
def test_kernels_compute_what_the_interpreter_does(processor: Processor, tmp_path: Any) -> None:
    lacking = Machine.missing(processor.compiler, processor.emulator)
    if lacking:
        pytest.skip(
            f"{lacking} is not installed: apt-get install qemu-user gcc-{processor.target.name}-linux-gnu"
        )
    machine = Machine(processor.target, processor.compiler, processor.emulator, tmp_path)
    all_jobs = jobs()
    assert {one.name.partition(" ")[0] for one in all_jobs} >= set(ops.operators())
    machine.link(all_jobs)
    wrong = []
    for number, one in enumerate(all_jobs):
        for piece, (got, after) in enumerate(zip(machine.run(number, one), one.after, strict=True)):
            wanted = as_numbers(after, one.dtypes[piece])
            if not _close(got, wanted, one.rtol):
                wrong.append(f"{one.name}, memory {piece}: {got} instead of {wanted}")
    assert not wrong, "\n".join(wrong)


def _close(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], rtol: float) -> bool:
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(got, wanted))
    bound = max(rtol, {2: 4e-3, 4: 4e-5, 8: 1e-11}[wanted.dtype.itemsize])
    wide = [a.astype(np.float64) for a in (got, wanted)]
    return bool(np.allclose(*wide, rtol=bound, atol=bound, equal_nan=True))
