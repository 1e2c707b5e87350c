"""An array under another dtype: for element types that NumPy or torch lack, such as Triton's 8-bit floats."""

from __future__ import annotations

from typing import Any

from portkit.errors import UsageError
from portkit.runtime.tile import ir


class TensorWrapper:
    """A torch tensor whose memory kernels take as elements of `dtype`."""

    def __init__(self, base: Any, dtype: ir.DType) -> None:
        self.base = base
        self.dtype = dtype
        self.data = base.data
        self.device = base.device
        self.shape = base.shape

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self.base.data_ptr())

    def stride(self, *args: Any) -> Any:
        """The strides, in elements."""
        return self.base.stride(*args)

    def element_size(self) -> int:
        """Bytes of an element."""
        return int(self.base.element_size())

    def numel(self) -> int:
        """How many elements there are."""
        return int(self.base.numel())

    def cpu(self) -> TensorWrapper:
        """The same in the memory of the CPU."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Take the elements of another."""
        self.base.copy_(other.base)

    def clone(self) -> TensorWrapper:
        """A copy."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """The same on a device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes: Any) -> TensorWrapper:
        """Another of the same dtype."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: ir.DType) -> Any:
    """A view of a tensor's memory as elements of a dtype of the tile language."""
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if not hasattr(tensor, "data_ptr"):
        raise UsageError(f"a {type(tensor).__name__} can't be reinterpreted", remedy="Pass a torch tensor.")
    return TensorWrapper(tensor, dtype)
