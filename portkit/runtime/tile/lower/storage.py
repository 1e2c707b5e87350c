"""Where tiles that are kept live: buffers in the scratch memory of the thread."""

from __future__ import annotations

from dataclasses import dataclass

from portkit.runtime.tile import ir
from portkit.runtime.tile.lower.emit import V

ALIGN = 64
PAGE = 4096
SKEW = 1344
DUMMY_BYTES = 64  # the start of scratch: masked-off scalar accesses go there


@dataclass(frozen=True)
class Buffer:
    """A tile in memory, row-major; strides count elements.  16-bit floats are f32 there, booleans bytes."""

    pointer: V
    element: ir.Element
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    panel: int = 0  # columns of a panel, a power of two: [k, n] lies in panels of whole columns, k by k

    def reshaped(self, shape: tuple[int, ...]) -> Buffer:
        """The same memory with another shape; it must have no padding."""
        return Buffer(self.pointer, self.element, shape, dense(shape))

    def without(self, axis: int, pointer: V) -> Buffer:
        """The part at one index of an axis, which starts at `pointer`."""
        return Buffer(
            pointer,
            self.element,
            self.shape[:axis] + self.shape[axis + 1 :],
            self.strides[:axis] + self.strides[axis + 1 :],
        )

    @property
    def is_dense(self) -> bool:
        return self.strides == dense(self.shape)


def kept_element(element: ir.Element) -> ir.Element:
    """How an element is kept in a buffer."""
    return ir.F32 if isinstance(element, ir.DType) and element.is_float and element.bits == 16 else element


def element_bytes(element: ir.Element) -> int:
    return 8 if isinstance(element, ir.Pointer) else element.size


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def padded(shape: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """Row-major strides whose rows end on a whole vector, and don't fall on the same cache sets."""
    if len(shape) == 1:
        return (1,)
    size = shape[-1]
    row = size if size & (size - 1) == 0 else -(-size // lanes) * lanes
    if row % 256 == 0:
        row += 16
    return (*(s * row for s in dense(shape[:-1])), 1)


class Arena:
    """Hands out offsets in scratch; what a region took is free again when the region ends."""

    def __init__(self) -> None:
        self.top = DUMMY_BYTES
        self.peak = DUMMY_BYTES

    def take(self, count: int) -> int:
        """An aligned offset with room for `count` bytes and one whole vector more.

        Big tiles are set apart, so that equal indices of two of them don't share the low 12 address bits: a
        load would wait for a store to the other.
        """
        offset = self.top
        skew = SKEW if count >= PAGE // 2 else 0
        self.top += -(-(count + ALIGN + skew) // ALIGN) * ALIGN
        self.peak = max(self.peak, self.top)
        return offset
