"""What is known of an index tile: base, strides, and the parts that are not affine.

The integer (or pointer) at index (i0, i1, …) of a tile is

    pointer + base + strides[0]·i0 + strides[1]·i1 + … + Σ coefficient·(another tile at the same index)

where base, strides and coefficients are polynomials of scalar values.  Signed arithmetic is taken not to
overflow, as in C; an index is then computed in 64 bits whatever its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from portkit.runtime.tile import ir
from portkit.runtime.tile.ir import Value

Monomial = tuple[Value, ...]  # scalar values multiplied together, sorted by identity
Dims = tuple["int | None", ...]  # for each dimension of a tile: the dimension of ours it follows, or none


@dataclass(frozen=True)
class Poly:
    """A polynomial with integer coefficients over scalar values; equal ones compare equal."""

    terms: frozenset[tuple[Monomial, int]] = frozenset()

    @staticmethod
    def of(value: Value) -> Poly:
        return Poly(frozenset({((value,), 1)}))

    @staticmethod
    def const(number: int) -> Poly:
        return Poly(frozenset({((), number)})) if number else ZERO

    @staticmethod
    def build(terms: Mapping[Monomial, int]) -> Poly:
        return Poly(frozenset((m, c) for m, c in terms.items() if c))

    @property
    def number(self) -> int | None:
        """The value of a constant polynomial."""
        if not self.terms:
            return 0
        (monomial, coefficient), *rest = self.terms
        return coefficient if not monomial and not rest else None

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms:
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Poly.build(terms)

    def __neg__(self) -> Poly:
        return Poly(frozenset((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        terms: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                key = tuple(sorted(m + n, key=id))
                terms[key] = terms.get(key, 0) + c * d
        return Poly.build(terms)


ZERO = Poly()
ONE = Poly(frozenset({((), 1)}))


@dataclass(frozen=True)
class Term:
    """A value that is taken as it is: a tile read at our index, dimension by dimension."""

    value: Value
    dims: Dims = ()

    def follows(self, dim: int) -> bool:
        """Whether it changes along a dimension of ours."""
        return dim in self.dims


@dataclass(frozen=True)
class Affine:
    """See the module; `pointer` is the scalar or tile of addresses that offsets count from."""

    base: Poly
    strides: tuple[Poly, ...] = ()
    others: frozenset[tuple[Term, Poly]] = frozenset()
    pointer: Term | None = None
    element: ir.DType | None = field(default=None, compare=False)  # of the pointer

    def offset(self) -> Affine:
        """Without the pointer."""
        return Affine(self.base, self.strides, self.others)

    def varies(self, dim: int) -> bool:
        """Whether the value changes along a dimension."""
        if self.strides[dim] != ZERO or (self.pointer is not None and self.pointer.follows(dim)):
            return True
        return any(term.follows(dim) for term, _ in self.others)

    def regular(self, dim: int) -> bool:
        """Whether the value changes along a dimension by its stride only."""
        if self.pointer is not None and self.pointer.follows(dim):
            return False
        return not any(term.follows(dim) for term, _ in self.others)

    @property
    def scalar(self) -> Poly | None:
        """The polynomial of a tile whose elements are all equal."""
        same = not self.others and self.pointer is None and all(s == ZERO for s in self.strides)
        return self.base if same else None

    def plus(self, other: Affine) -> Affine:
        others: dict[Term, Poly] = dict(self.others)
        for term, coefficient in other.others:
            others[term] = others.get(term, ZERO) + coefficient
        return Affine(
            self.base + other.base,
            tuple(a + b for a, b in zip(self.strides, other.strides, strict=True)),
            frozenset((t, c) for t, c in others.items() if c != ZERO),
            self.pointer or other.pointer,
            self.element or other.element,
        )

    def times(self, factor: Poly) -> Affine:
        return Affine(
            self.base * factor,
            tuple(s * factor for s in self.strides),
            frozenset((t, c * factor) for t, c in self.others if c * factor != ZERO),
        )

    def minus(self, other: Affine) -> Affine:
        return self.plus(other.times(Poly.const(-1)))

    def moved(self, dims: Dims) -> Affine:
        """Seen by a tile of another rank: `dims[k]` is the new place of our dimension k, None drops it."""
        rank = 1 + max((d for d in dims if d is not None), default=-1)
        return self.placed(dims, rank)

    def placed(self, dims: Dims, rank: int) -> Affine:
        """Our dimension k becomes dimension dims[k] of a tile of `rank` (None: index 0)."""
        strides = [ZERO] * rank
        for k, d in enumerate(dims):
            if d is not None:
                strides[d] = self.strides[k]

        def move(term: Term) -> Term:
            return Term(term.value, tuple(None if d is None else dims[d] for d in term.dims))

        others: dict[Term, Poly] = {}
        for term, coefficient in self.others:
            others[move(term)] = others.get(move(term), ZERO) + coefficient
        return Affine(
            self.base,
            tuple(strides),
            frozenset((t, c) for t, c in others.items() if c != ZERO),
            move(self.pointer) if self.pointer else None,
            self.element,
        )


def source_dims(op: ir.Op) -> Dims | None:
    """For an operation that only rearranges: for each dimension of its operand, ours; else None."""
    source = op.operands[0].type.shape if op.operands else ()
    shape = op.results[0].type.shape if op.results else ()
    if op.opcode == "broadcast":
        return tuple(k if n == shape[k] and n != 1 else None for k, n in enumerate(source))
    if op.opcode == "expand_dims":
        axis = int(op.attrs["axis"]) % len(shape)  # type: ignore[arg-type]
        return tuple(k if k < axis else k + 1 for k in range(len(source)))
    if op.opcode == "trans":
        perm = op.attrs["perm"]
        assert isinstance(perm, tuple)
        return tuple(perm.index(k) for k in range(len(source)))
    if op.opcode == "splat":
        return ()
    if op.opcode == "reshape":
        return _reshape_dims(source, shape)
    return None


def _reshape_dims(source: tuple[int, ...], shape: tuple[int, ...]) -> Dims | None:
    """A reshape that only adds or removes dimensions of size 1."""
    big = [k for k, n in enumerate(shape) if n != 1]
    if [n for n in source if n != 1] != [shape[k] for k in big]:
        return None
    places = iter(big)
    return tuple(next(places) if n != 1 else None for n in source)


class Analysis:
    """Affine forms of the integer and pointer values of a function, computed on demand."""

    def __init__(self) -> None:
        self.known: dict[Value, Affine] = {}

    def of(self, value: Value) -> Affine:
        """The affine form of an integer or pointer value; never fails."""
        if value not in self.known:
            self.known[value] = self._compute(value) or self._opaque(value)
        return self.known[value]

    def _opaque(self, value: Value) -> Affine:
        rank = len(value.type.shape)
        if value.type.is_pointer:
            term = Term(value, tuple(range(rank)))
            return Affine(ZERO, (ZERO,) * rank, pointer=term, element=value.type.dtype)
        if not rank:
            return Affine(Poly.of(value))
        dims = tuple(k if n != 1 else None for k, n in enumerate(value.type.shape))
        return Affine(ZERO, (ZERO,) * rank, frozenset({(Term(value, dims), ONE)}))

    def _compute(self, value: Value) -> Affine | None:
        op, rank = value.owner, len(value.type.shape)
        if op is None:
            return None
        if op.opcode == "const" and isinstance(op.attrs["value"], int) and not value.type.is_pointer:
            return Affine(Poly.const(int(op.attrs["value"])), (ZERO,) * rank)
        if op.opcode == "arange":
            return Affine(Poly.const(int(op.attrs["start"])), (ONE,))  # type: ignore[arg-type]
        dims = source_dims(op)
        if dims is not None and (rank or op.opcode == "reshape"):
            return self.of(op.operands[0]).placed(dims, rank)
        if not rank:
            return self._scalar(op, value)
        return self._arithmetic(op, value)

    def _scalar(self, op: ir.Op, value: Value) -> Affine | None:
        # only what stays one polynomial: scalars are otherwise their own SSA values
        if op.opcode == "addptr":
            return self.of(op.operands[0]).plus(self._index(op.operands[1]))
        return None

    def _index(self, value: Value) -> Affine:
        return self.of(value)

    def _arithmetic(self, op: ir.Op, value: Value) -> Affine | None:
        element = value.type.element
        if op.opcode == "addptr":
            return self.of(op.operands[0]).plus(self._index(op.operands[1]))
        if not isinstance(element, ir.DType) or not element.is_signed or element.bits < 32:
            return None
        forms = [self.of(v) for v in op.operands if isinstance(v.type.element, ir.DType)]
        if op.opcode in ("add", "sub"):
            return forms[0].plus(forms[1]) if op.opcode == "add" else forms[0].minus(forms[1])
        if op.opcode == "neg":
            return forms[0].times(Poly.const(-1))
        if op.opcode == "mul":
            for a, b in ((0, 1), (1, 0)):
                factor = forms[b].scalar
                if factor is not None:
                    return forms[a].times(factor)
        if op.opcode == "shl" and (amount := forms[1].scalar) is not None and amount.number is not None:
            return forms[0].times(Poly.const(1 << amount.number)) if 0 <= amount.number < 63 else None
        if op.opcode == "cast":
            return self._cast(op.operands[0].type.element, element, forms)
        return None

    def _cast(self, source: ir.Element, to: ir.DType, forms: list[Affine]) -> Affine | None:
        if not isinstance(source, ir.DType) or source.is_float or source.bits < 32:
            return None
        return forms[0] if source.is_signed and to.is_signed and to.bits >= source.bits else None
