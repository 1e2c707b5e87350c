"""Launching: the driver, kernels, autotuning, errors."""

from __future__ import annotations

from portkit.runtime.tile.autotune import Autotuner, Config, Heuristics, autotune, heuristics
from portkit.runtime.triton.runtime import autotuner, cache, errors, jit
from portkit.runtime.triton.runtime.driver import driver
from portkit.runtime.triton.runtime.errors import InterpreterError, OutOfResources
from portkit.runtime.triton.runtime.jit import (
    JITFunction,
    KernelInterface,
    MockTensor,
    TensorWrapper,
    reinterpret,
)

__all__ = [
    "Autotuner",
    "Config",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "autotune",
    "autotuner",
    "cache",
    "driver",
    "errors",
    "heuristics",
    "jit",
    "reinterpret",
]
