"""Tensor descriptors made on the host: an array, and the blocks in which a kernel reads and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from portkit.errors import UsageError

MAX_RANK = 5
ALIGNMENT = 16
MAX_ELEMENTS = 1 << 20


@dataclass
class TensorDescriptor:
    """An argument of a kernel that has `load(offsets)` and `store(offsets, value)` there.

    `shape` and `strides` count elements; what lies outside the array is read as zero or NaN (`padding`), and
    is not written.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        _demand(len(self.strides) == rank == len(self.block_shape), "shape, strides and block differ in rank")
        _demand(1 <= rank <= MAX_RANK, f"the rank is {rank}, not 1 to {MAX_RANK}")
        _demand(self.base.data_ptr() % ALIGNMENT == 0, f"the array is not aligned to {ALIGNMENT} bytes")
        count = 1
        for size in self.block_shape:
            _demand(
                isinstance(size, int) and size > 0 and not size & (size - 1), f"the block has size {size}"
            )
            count *= size
        _demand(count <= MAX_ELEMENTS, f"the block has {count} elements, more than {MAX_ELEMENTS}")
        size = self.base.element_size()
        rows = all(stride * size % ALIGNMENT == 0 for stride in self.strides[:-1])
        _demand(rows, f"rows are not aligned to {ALIGNMENT} bytes")
        _demand(all(n > 0 for n in self.shape), "a size of the array is not positive")
        _demand(self.strides[-1] == 1, "the last axis is not contiguous")
        _demand(self.padding in ("zero", "nan"), f"padding is {self.padding!r}, not 'zero' or 'nan'")

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """The descriptor of a whole tensor."""
        return TensorDescriptor(
            tensor, tensor.shape, tensor.stride(), block_shape, padding, round_f32_to_tf32
        )


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise UsageError(f"this array can't have a tensor descriptor: {message}")
