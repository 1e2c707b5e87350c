"""The driver of the CPU: one device, whose work is done when a launch returns."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from typing import Any

from portkit.runtime.triton.backends.compiler import GPUTarget

_CACHE_BYTES = 1 << 25  # written between two timed runs


class Event:
    """A point in time."""

    def __init__(self, enable_timing: bool = True) -> None:
        self.time = 0

    def record(self, stream: Any = None) -> None:
        """Note the time."""
        self.time = time.perf_counter_ns()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        return (end.time - self.time) / 1e6

    def synchronize(self) -> None:
        """Nothing is under way."""


class Interface:
    """What benchmarks ask of a device."""

    Event = Event

    def synchronize(self, device: Any = None) -> None:
        """Nothing is under way when a launch has returned."""

    def current_device(self) -> int:
        """The only one."""
        return 0


class Utils:
    """Properties of the device under names of GPUs."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Processors as multiprocessors; no limits on memory that programs share."""
        from portkit.runtime.tile import threads

        return {
            "max_shared_mem": 1 << 30,
            "max_num_regs": 1 << 30,
            "multiprocessor_count": threads.current().size(),
            "warpSize": 1,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }


class CPUDriver:
    """Answers what a driver is asked."""

    def __init__(self) -> None:
        self.utils = Utils()

    @staticmethod
    def is_active() -> bool:
        """There is always a CPU."""
        return True

    def get_current_target(self) -> GPUTarget:
        """The CPU of this machine."""
        return GPUTarget("cpu", platform.machine(), 0)

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: Any = None) -> int:
        """The only one."""
        return 0

    def get_active_torch_device(self) -> Any:
        """The device of torch whose tensors kernels take."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Interface:
        """What benchmarks ask of a device."""
        return Interface()

    def get_benchmarker(self) -> Callable[..., Any]:
        """What times a function."""
        from portkit.runtime.triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory that is larger than the caches of the processor."""
        import numpy as np

        return np.empty(_CACHE_BYTES, np.uint8)

    def clear_cache(self, cache: Any) -> None:
        """Fill the caches of the processor with something else."""
        cache.fill(0)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The C type of an argument."""
        return "void*" if ty.startswith("*") else ty


class DriverConfig:
    """The driver in use: always the CPU's."""

    def __init__(self) -> None:
        self.default = CPUDriver()
        self.active: Any = self.default

    def set_active(self, driver: Any) -> None:
        """Use another driver."""
        self.active = driver

    def set_active_to_cpu(self) -> None:
        """Use the CPU's."""
        self.active = self.default

    def reset_active(self) -> None:
        """Use the CPU's."""
        self.active = self.default


driver = DriverConfig()

__all__ = ["CPUDriver", "DriverConfig", "driver"]
