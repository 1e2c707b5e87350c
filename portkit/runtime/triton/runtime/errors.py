"""Errors of launches, under Triton's names."""

from __future__ import annotations

from portkit.errors import KernelError


class InterpreterError(KernelError):
    """The interpreter of Triton failed; ours raises KernelError."""


class OutOfResources(KernelError):
    """A device has too little of a resource for a kernel; a CPU does not run out of them."""

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(f"out of resource: {name}, required: {required}, hardware limit: {limit}")
        self.required, self.limit, self.name = required, limit, name


class PTXASError(KernelError):
    """NVIDIA's assembler failed; it never runs here."""


__all__ = ["InterpreterError", "OutOfResources", "PTXASError"]
