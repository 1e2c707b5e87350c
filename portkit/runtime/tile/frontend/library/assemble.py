"""Taking tiles apart and putting them together: halves, pairs, scans and reductions with any function.

All of it is made of reshapes, choices and exact integer sums, so that no target needs to know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from portkit.errors import KernelError
from portkit.runtime.tile import ir
from portkit.runtime.tile.frontend import promotion
from portkit.runtime.tile.frontend.semantics import Semantics, constant, describe

Combine: TypeAlias = Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]]
_BITS = {8: ir.I8, 16: ir.I16, 32: ir.I32, 64: ir.I64}


def _shaped(sem: Semantics, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    if value.type.shape == shape:
        return value
    return sem.builder.value("reshape", [value], value.type.with_shape(shape))


def _position(sem: Semantics, shape: tuple[int, ...], axis: int) -> ir.Value:
    """The index along an axis, of size 1 along all others."""
    count = shape[axis]
    row = sem.builder.value("arange", [], ir.Type(ir.I32, (count,)), start=0, end=count)
    return _shaped(sem, row, tuple(count if a == axis else 1 for a in range(len(shape))))


def _pick(sem: Semantics, value: ir.Value, axis: int, index: int) -> ir.Value:
    """The slice of a tile at an index of an axis."""
    shape = value.type.shape[:axis] + value.type.shape[axis + 1 :]
    return sem.builder.value("slice", [value], value.type.with_shape(shape), axis=axis, index=index)


def _masked_sum(sem: Semantics, value: ir.Value, mask: ir.Value, axis: int) -> ir.Value:
    """The only element along an axis whose mask is true: a sum of its bits, which is exact."""
    dtype = value.type.dtype
    bits = sem.cast(value, ir.I8) if dtype.is_bool else value
    if dtype.is_float:
        bits = sem.builder.value("bitcast", [value], value.type.with_element(_BITS[dtype.bits]))
    kept = sem.select(mask, bits, 0)
    shape = kept.type.shape[:axis] + kept.type.shape[axis + 1 :]
    found = sem.builder.value("reduce", [kept], kept.type.with_shape(shape), kind="sum", axis=axis)
    if dtype.is_float:
        return sem.builder.value("bitcast", [found], found.type.with_element(dtype))
    return sem.cast(found, dtype)


def _choose(sem: Semantics, first: ir.Value, second: ir.Value, axis: int) -> ir.Value:
    """Two tiles as index 0 and 1 of a new axis."""
    a, b = sem.expand(first, axis), sem.expand(second, axis)
    shape = (*a.type.shape[:axis], 2, *a.type.shape[axis + 1 :])
    here = sem.compare("==", _position(sem, shape, axis), 0)
    return sem.select(here, a, b)


def join(sem: Semantics, a: Any, b: Any) -> ir.Value:
    """Two tiles as index 0 and 1 of a new last axis."""
    x, y = sem.same_shape(*sem.unify(a, b))
    return _choose(sem, x, y, len(x.type.shape))


def split(sem: Semantics, a: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The two slices of a last axis of size 2."""
    if not a.type.shape or a.type.shape[-1] != 2:
        raise KernelError(f"tl.split needs a last axis of size 2, not {describe(a)}")
    axis = len(a.type.shape) - 1
    return _pick(sem, a, axis, 0), _pick(sem, a, axis, 1)


def interleave(sem: Semantics, a: Any, b: Any) -> ir.Value:
    """Elements of two tiles in turn along the last axis."""
    pairs = join(sem, a, b)
    shape = pairs.type.shape
    return _shaped(sem, pairs, (*shape[:-2], shape[-2] * 2) if len(shape) > 1 else shape)


def cat(sem: Semantics, input: Any, other: Any, can_reorder: bool = False, dim: int = 0) -> ir.Value:
    """One tile after the other along an axis."""
    pairs = join(sem, input, other)
    shape = pairs.type.shape[:-1]
    axis = constant(dim) % len(shape)
    order = (*range(axis), len(shape), *range(axis, len(shape)))
    moved = sem.builder.value(
        "trans", [pairs], pairs.type.with_shape(tuple(pairs.type.shape[a] for a in order)), perm=order
    )
    return _shaped(sem, moved, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))


def _axis(value: ir.Value, axis: object, what: str) -> int:
    known = constant(axis)
    rank = len(value.type.shape)
    if not isinstance(known, int) or not -rank <= known < rank:
        raise KernelError(f"tl.{what}: axis {describe(axis)} is out of range for {describe(value)}")
    return known % rank


def _partner(sem: Semantics, value: ir.Value, axis: int, distance: int) -> ir.Value:
    """Each element's partner, whose index differs in the bit `distance`."""
    shape = value.type.shape
    split_shape = (*shape[:axis], shape[axis] // (2 * distance), 2, distance, *shape[axis + 1 :])
    parts = _shaped(sem, value, split_shape)
    left, right = _pick(sem, parts, axis + 1, 0), _pick(sem, parts, axis + 1, 1)
    return _shaped(sem, _choose(sem, right, left, axis + 1), shape)


def flip(sem: Semantics, x: ir.Value, dim: int | None = None) -> ir.Value:
    """The elements in reverse order along an axis (the last one)."""
    axis = _axis(x, -1 if dim is None else dim, "flip")
    distance = 1
    while distance < x.type.shape[axis]:
        x = _partner(sem, x, axis, distance)
        distance *= 2
    return x


def sort(sem: Semantics, x: ir.Value, dim: int | None = None, descending: bool = False) -> ir.Value:
    """The elements in order along the last axis, by a bitonic network."""
    axis = _axis(x, -1 if dim is None else dim, "sort")
    count = x.type.shape[axis]
    index = _position(sem, x.type.shape, axis)
    size = 2
    while size <= count:
        # runs of `size` elements go up and down in turn; the last run is the whole axis
        down = sem.compare("!=", sem.binary("&", index, size), 0) if size < count else None
        distance = size // 2
        while distance:
            other = _partner(sem, x, axis, distance)
            upper = sem.compare("!=", sem.binary("&", index, distance), 0)
            wants_large = upper if down is None else sem.binary("^", upper, down)
            if constant(descending):
                wants_large = sem.invert(wants_large)
            larger = sem.compare(">", x, other)
            smaller = sem.compare("<", x, other)
            swap = sem.select(wants_large, smaller, larger)
            x = sem.select(swap, other, x)
            distance //= 2
        size *= 2
    return x


def topk(sem: Semantics, x: ir.Value, k: int, dim: int | None = None, descending: bool = True) -> ir.Value:
    """The first elements of the sorted tile."""
    count = constant(k)
    axis = _axis(x, -1 if dim is None else dim, "topk")
    shape = x.type.shape
    if not isinstance(count, int) or not 0 < count <= shape[axis] or count & (count - 1):
        raise KernelError(f"tl.topk: k is a power of two of at most {shape[axis]}, not {describe(k)}")
    ordered = sort(sem, x, axis, descending)
    if count == shape[axis]:
        return ordered
    runs = _shaped(sem, ordered, (*shape[:axis], shape[axis] // count, count, *shape[axis + 1 :]))
    return _pick(sem, runs, axis, 0)


def _combiner(sem: Semantics, function: Any) -> Combine:
    """A @jit function of 2n values that gives n, on two lists of n values."""

    def combine(first: list[ir.Value], second: list[ir.Value]) -> list[ir.Value]:
        result = sem.call(function, [*first, *second])
        values = list(result) if isinstance(result, tuple) else [result]
        if len(values) != len(first):
            raise KernelError(f"the combining function gives {len(values)} values for {len(first)}")
        return [sem.cast(sem.value(v), f.type.element) for v, f in zip(values, first, strict=True)]

    return combine


def _operands(input: Any, what: str) -> list[ir.Value]:
    values = list(input) if isinstance(input, tuple) else [input]
    for value in values:
        if not isinstance(value, ir.Value) or not value.type.is_tile or value.type.is_pointer:
            raise KernelError(f"tl.{what} needs tiles, not {describe(value)}")
    return values


def _packed(values: list[ir.Value], input: Any) -> Any:
    return tuple(values) if isinstance(input, tuple) else values[0]


def reduce(sem: Semantics, input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False) -> Any:
    """Combine halves, then their halves, and so on, until one is left along the axis."""
    return _reduced(sem, _operands(input, "reduce"), input, axis, keep_dims, _combiner(sem, combine_fn))


def _reduced(
    sem: Semantics, values: list[ir.Value], input: Any, axis: Any, keep_dims: Any, combine: Combine
) -> Any:
    rank = len(values[0].type.shape)
    if axis is None:
        values = [_shaped(sem, v, (v.type.numel,)) for v in values]
    number = 0 if axis is None else _axis(values[0], axis, "reduce")
    while values[0].type.shape[number] > 1:
        shape = values[0].type.shape
        halves = [
            _shaped(sem, v, (*shape[:number], shape[number] // 2, 2, *shape[number + 1 :])) for v in values
        ]
        first, second = ([_pick(sem, h, number + 1, i) for h in halves] for i in (0, 1))
        values = combine(first, second)
    values = [_pick(sem, v, number, 0) for v in values]
    if constant(keep_dims):
        axes = range(rank) if axis is None else [number]
        for place in axes:
            values = [sem.expand(v, place) for v in values]
    return _packed(values, input)


def xor_sum(sem: Semantics, input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Bitwise exclusive or over an axis."""
    value = _operands(input, "xor_sum")[0]
    if not value.type.dtype.is_int:
        raise KernelError(f"tl.xor_sum needs integers, not {describe(value)}")
    return _reduced(sem, [value], input, axis, keep_dims, lambda a, b: [sem.binary("^", a[0], b[0])])


def associative_scan(sem: Semantics, input: Any, axis: int, combine_fn: Any, reverse: bool = False) -> Any:
    """Running combinations along an axis."""
    values = _operands(input, "associative_scan")
    number = _axis(values[0], axis, "associative_scan")
    return _packed(_scan(sem, values, number, bool(constant(reverse)), _combiner(sem, combine_fn)), input)


def _scan(
    sem: Semantics, values: list[ir.Value], axis: int, backwards: bool, combine: Combine
) -> list[ir.Value]:
    """Blocks of 1, 2, 4, ... elements take on the total of the block before them (or after, backwards)."""
    shape = values[0].type.shape
    block = 1
    while block < shape[axis]:
        view = (*shape[:axis], shape[axis] // (2 * block), 2, block, *shape[axis + 1 :])
        parts = [_shaped(sem, v, view) for v in values]
        halves = [[_pick(sem, p, axis + 1, i) for p in parts] for i in (0, 1)]
        if backwards:
            halves.reverse()
        edge = 0 if backwards else block - 1
        totals = [sem.expand(_pick(sem, h, axis + 1, edge), axis + 1) for h in halves[0]]
        spread = [sem.broadcast(t, h.type.shape) for t, h in zip(totals, halves[1], strict=True)]
        changed = combine(spread, halves[1])
        pairs = zip(changed, halves[0], strict=True) if backwards else zip(halves[0], changed, strict=True)
        values = [_shaped(sem, _choose(sem, a, b, axis + 1), shape) for a, b in pairs]
        block *= 2
    return values


def _running(sem: Semantics, symbol: str, input: ir.Value, axis: Any, reverse: Any, dtype: Any) -> ir.Value:
    value = _operands(input, "cumsum" if symbol == "+" else "cumprod")[0]
    if dtype is not None:
        value = sem.cast(value, dtype)
    elif value.type.dtype.is_int and value.type.dtype.bits < 32:
        value = sem.cast(value, ir.U32 if promotion.is_unsigned(value.type.dtype) else ir.I32)

    def combine(first: list[ir.Value], second: list[ir.Value]) -> list[ir.Value]:
        return [sem.binary(symbol, first[0], second[0])]

    return _scan(sem, [value], _axis(value, axis, "cumsum"), bool(constant(reverse)), combine)[0]


def cumsum(
    sem: Semantics, input: ir.Value, axis: int = 0, reverse: bool = False, dtype: ir.DType | None = None
) -> ir.Value:
    """Running sums; small integers in 32 bits."""
    return _running(sem, "+", input, axis, reverse, dtype)


def cumprod(sem: Semantics, input: ir.Value, axis: int = 0, reverse: bool = False) -> ir.Value:
    """Running products; small integers in 32 bits."""
    return _running(sem, "*", input, axis, reverse, None)


def gather(sem: Semantics, src: ir.Value, index: ir.Value, axis: int) -> ir.Value:
    """The elements of a tile that indices along one axis name."""
    number = _axis(src, axis, "gather")
    rank, count = len(src.type.shape), src.type.shape[number]
    if len(index.type.shape) != rank:
        raise KernelError(f"tl.gather needs indices of rank {rank}, not {describe(index)}")
    source = sem.expand(src, number)  # [..., positions of `index`, positions of `src`, ...]
    places = sem.expand(index, number + 1)
    line = tuple(count if axis == number + 1 else 1 for axis in range(rank + 1))
    here = sem.compare("==", places, _position(sem, line, number + 1))
    return _masked_sum(sem, source, here, number + 1)


def histogram(sem: Semantics, input: ir.Value, num_bins: int, mask: Any = None) -> ir.Value:
    """How many elements have each of the values 0, ..., num_bins - 1, as i32."""
    bins = constant(num_bins)
    if not isinstance(bins, int) or len(input.type.shape) != 1:
        raise KernelError("tl.histogram needs a row of integers and a constant number of bins")
    shape = (input.type.shape[0], bins)
    equal = sem.compare("==", sem.expand(input, 1), _position(sem, shape, 1))
    if mask is not None:
        equal = sem.binary("&", equal, sem.expand(sem.truth(mask), 1))
    counted = sem.cast(equal, ir.I32)
    return sem.builder.value("reduce", [counted], ir.Type(ir.I32, (bins,)), kind="sum", axis=0)
