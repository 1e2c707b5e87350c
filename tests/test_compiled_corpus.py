"""The corpus of kernels, compiled for this processor and run: what the interpreter says must come out."""

from __future__ import annotations

from typing import Any

import kernel_cases
import numpy as np
import pytest

from portkit.runtime.targets import host
from portkit.runtime.tile.compile import compile_kernel
from portkit.runtime.tile.jit import checked_grid
from portkit.runtime.tile.launch import Launcher
from portkit.runtime.tile.signature import Runtime


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in kernel_cases.cases()])
def test_compiled_kernel(case: dict[str, Any]) -> None:
    kernel = case["kernel"]
    values, specs = kernel_cases.specs(case)
    where = [i for i, spec in enumerate(specs) if isinstance(spec, Runtime)]
    compiled = compile_kernel(kernel, specs, host())
    numbers = [values[i].ctypes.data if isinstance(values[i], np.ndarray) else values[i] for i in where]
    launcher = Launcher(compiled, where, [param.name for param in kernel.params])
    launcher(checked_grid(case["grid"], kernel.__name__), numbers, values)
    kernel_cases.check(case, values)
