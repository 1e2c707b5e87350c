"""The base of drivers, where libraries look for it."""

from __future__ import annotations

from portkit.runtime.triton.runtime.driver import CPUDriver

DriverBase = CPUDriver

__all__ = ["DriverBase"]
