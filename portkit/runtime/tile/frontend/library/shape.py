"""Making tiles and changing their shape or type."""

from __future__ import annotations

from typing import Any

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend.semantics import Operand, Semantics, constant, describe, sizes

_MAX_SIZE = 1 << 20


def _axis_number(axis: object) -> int:
    known = constant(axis)
    if known not in (0, 1, 2):
        raise KernelError(f"a grid has axes 0, 1 and 2, not {describe(axis)}")
    return int(known)


def program_id(sem: Semantics, axis: int) -> ir.Value:
    """Position in the grid."""
    return sem.builder.value("program_id", [], ir.Type(ir.I32), axis=_axis_number(axis))


def num_programs(sem: Semantics, axis: int) -> ir.Value:
    """Size of the grid."""
    return sem.builder.value("num_programs", [], ir.Type(ir.I32), axis=_axis_number(axis))


def arange(sem: Semantics, start: int, end: int) -> ir.Value:
    """start, ..., end - 1."""
    first, last = constant(start), constant(end)
    if not isinstance(first, int) or not isinstance(last, int):
        raise KernelError(
            "tl.arange needs constants", remedy="Mark the size as a tl.constexpr parameter of the kernel."
        )
    count = last - first
    if count < 1 or count & (count - 1) or not -(2**31) <= first < last <= 2**31:
        raise KernelError(
            f"tl.arange({first}, {last}) has {count} elements: a tile's size is a power of two",
            remedy="Take the next power of two, and mask the rest.",
        )
    return sem.builder.value("arange", [], ir.Type(ir.I32, (count,)), start=first, end=last)


def _checked(shape: Any) -> tuple[int, ...]:
    found = sizes(shape)
    count = 1
    for size in found:
        count *= size
        if size & (size - 1):
            raise KernelError(
                f"a tile can't have the shape {list(found)}: sizes are powers of two",
                remedy="Take the next power of two, and mask the rest.",
            )
    if count > _MAX_SIZE:
        raise KernelError(f"a tile of shape {list(found)} has more than {_MAX_SIZE} elements")
    return found


def full(sem: Semantics, shape: Any, value: Operand, dtype: Any) -> ir.Value:
    """A tile of one scalar."""
    element = _dtype(dtype)
    if isinstance(value, ir.Value) and constant(value) is None:
        if value.type.is_tile:
            raise KernelError(f"tl.full needs a scalar, not {describe(value)}")
        return sem.broadcast(sem.cast(value, element), _checked(shape))
    return sem.const(constant(value), element, _checked(shape))


def zeros(sem: Semantics, shape: Any, dtype: Any) -> ir.Value:
    """A tile of zeros."""
    return sem.const(0, _dtype(dtype), _checked(shape))


def zeros_like(sem: Semantics, input: ir.Value) -> ir.Value:
    """Zeros with another's shape and dtype."""
    return sem.const(0, input.type.dtype, input.type.shape)


def _dtype(dtype: object) -> ir.DType:
    if not isinstance(dtype, ir.DType):
        raise KernelError(f"expected a dtype such as tl.float32, not {describe(dtype)}")
    return dtype


def expand_dims(sem: Semantics, input: Operand, axis: Any) -> ir.Value:
    """Insert axes of size 1 at the positions they have in the result."""
    value = sem.value(input)
    known = [constant(a) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    rank = len(value.type.shape) + len(known)
    for position in sorted(a + rank if a < 0 else a for a in known):
        value = sem.expand(value, position)
    return value


def _varargs(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape


def broadcast_to(sem: Semantics, input: Operand, shape: tuple[Any, ...]) -> ir.Value:
    """Repeat along axes of size 1."""
    value, target = sem.value(input), _checked(_varargs(shape))
    while value.type.shape and len(value.type.shape) < len(target):
        value = sem.expand(value, 0)
    return sem.broadcast(value, target)


def broadcast(sem: Semantics, input: Operand, other: Operand) -> tuple[ir.Value, ...]:
    """Both in one shape."""
    return tuple(sem.same_shape(sem.value(input), sem.value(other)))


def reshape(sem: Semantics, input: Operand, shape: tuple[Any, ...], can_reorder: bool = False) -> ir.Value:
    """The same elements in another shape."""
    value = sem.value(input)
    given = _varargs(shape)
    items = list(given) if isinstance(given, (tuple, list)) else [given]
    known = [constant(i) for i in items]
    if known.count(-1) == 1:
        rest = 1
        for size in known:
            rest *= size if size != -1 else 1
        items[known.index(-1)] = value.type.numel // max(rest, 1)
    target = _checked(items) if items else ()
    if value.type.with_shape(target).numel != value.type.numel:
        raise KernelError(
            f"a tile of shape {list(value.type.shape)} can't be reshaped to {list(target)}",
            remedy="The number of elements must stay the same.",
        )
    if target == value.type.shape:
        return value
    if not value.type.is_tile:
        return sem.broadcast(value, target)
    return sem.builder.value("reshape", [value], value.type.with_shape(target))


def view(sem: Semantics, input: Operand, shape: tuple[Any, ...]) -> ir.Value:
    """As reshape."""
    return reshape(sem, input, shape)


def ravel(sem: Semantics, x: ir.Value) -> ir.Value:
    """One row."""
    return reshape(sem, x, (x.type.numel,))


def trans(sem: Semantics, input: ir.Value, dims: tuple[Any, ...]) -> ir.Value:
    """Permute axes."""
    rank = len(input.type.shape)
    order = tuple(constant(d) for d in _varargs(dims))
    if not order:
        if rank < 2:
            raise KernelError(f"tl.trans needs a matrix, not {describe(input)}")
        order = (*range(rank - 2), rank - 1, rank - 2)
    if sorted(order) != list(range(rank)):
        raise KernelError(f"the axes {list(order)} are no order of the {rank} axes of {describe(input)}")
    shape = tuple(input.type.shape[d] for d in order)
    return sem.builder.value("trans", [input], input.type.with_shape(shape), perm=order)


def permute(sem: Semantics, input: ir.Value, dims: tuple[Any, ...]) -> ir.Value:
    """Permute axes."""
    return trans(sem, input, dims)


def where(sem: Semantics, condition: Operand, x: Operand, y: Operand) -> ir.Value:
    """Choice by element."""
    return sem.select(condition, x, y)


def cast(
    sem: Semantics,
    input: Operand,
    dtype: Any,
    fp_downcast_rounding: str | None = None,
    bitcast: bool = False,
) -> ir.Value:
    """Values, or bits, in another dtype."""
    if fp_downcast_rounding not in (None, "rtne", "rtz"):
        raise KernelError(
            f"there is no rounding {fp_downcast_rounding!r}", remedy='Use "rtne", the default, or "rtz".'
        )
    value = sem.value(input)
    if isinstance(dtype, ir.Type):
        dtype = dtype.element
    if isinstance(dtype, ir.Pointer):
        return sem.cast(value, dtype)
    element = _dtype(dtype)
    if fp_downcast_rounding == "rtz" and not value.type.is_pointer:
        return _towards_zero(sem, value, element)
    if not bitcast or value.type.element == element:
        return sem.cast(value, element)
    if value.type.is_pointer or value.type.dtype.bits != element.bits:
        raise KernelError(f"a bitcast keeps the width: {value.type.element} can't become {element}")
    return sem.builder.value("bitcast", [value], value.type.with_element(element))


def _towards_zero(sem: Semantics, value: ir.Value, element: ir.DType) -> ir.Value:
    """A narrower float, rounded towards zero: one step back where the nearest one is larger."""
    if not (value.type.dtype.is_float and element.is_float) or element.bits >= value.type.dtype.bits:
        raise KernelError("rounding belongs to casts to narrower floats")
    near = sem.cast(value, element)
    integer = ir.DType("int", element.bits)
    bits = sem.builder.value("bitcast", [near], near.type.with_element(integer))
    back = sem.builder.value("bitcast", [sem.binary("-", bits, 1)], near.type)
    sizes_ = [sem.builder.value("abs", [v], v.type) for v in (sem.cast(near, value.type.element), value)]
    return sem.select(sem.compare(">", sizes_[0], sizes_[1]), back, near)


def logical_and(sem: Semantics, input: Operand, other: Operand) -> ir.Value:
    """Both are not zero."""
    return sem.binary("&", sem.truth(input), sem.truth(other))


def logical_or(sem: Semantics, input: Operand, other: Operand) -> ir.Value:
    """One of them is not zero."""
    return sem.binary("|", sem.truth(input), sem.truth(other))
