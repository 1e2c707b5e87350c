"""Computes a tile value at one place of a loop nest: a scalar, or a vector along one dimension.

A tile that is not kept in a buffer is *virtual*: it is computed from its operands wherever it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import ZERO, Affine, Analysis, Dims, Poly, source_dims
from portkit.runtime.tile.lower.elementwise import Elementwise, register
from portkit.runtime.tile.lower.emit import I1, I64, T, V
from portkit.runtime.tile.lower.memory import Memory
from portkit.runtime.tile.lower.place import Context, Index, Known, Place


class Evaluator:
    """Evaluates values in vectors of `lanes` (0: scalars only)."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.code = context.code
        self.elementwise = Elementwise(context.code, context.target)
        self.memory = Memory(self)
        self.lanes = 0
        self.known = Known()
        self.valid: V | None = None  # lanes inside the tile, in the last vector of an odd size
        self.leaned = False  # whether the value being computed used `known`

    @contextmanager
    def assuming(self, known: Known, valid: V | None = None) -> Iterator[None]:
        """Within, the comparisons in `known` hold, and lanes outside `valid` don't exist."""
        before = self.known, self.valid
        self.known, self.valid = known, valid
        try:
            yield
        finally:
            self.known, self.valid = before

    # --- scalars --------------------------------------------------------------------------------------

    def scalar(self, value: ir.Value) -> V:
        """A scalar value of the kernel."""
        return self.context.scalars[value]

    def wide(self, value: ir.Value, v: V) -> V:
        """An integer as i64."""
        if isinstance(v.const, int) and not v.type.lanes:
            return self.code.const(v.const, I64)
        dtype = value.type.dtype
        key = ("wide", v.text)
        return self._memoised(key, v, lambda: self.elementwise.convert(dtype, ir.I64, v))

    def _memoised(self, key: tuple[object, ...], v: V, make: object) -> V:
        depth = max(v.depth, self.code.floor)
        memo = self.code.scopes[depth].memo
        if key not in memo:
            memo[key] = make()  # type: ignore[operator]
        return memo[key]

    def poly(self, p: Poly) -> V:
        """A polynomial as i64."""
        total: V | None = None
        number = self.context.number
        for monomial, coefficient in sorted(p.terms, key=lambda t: [number(v) for v in t[0]]):
            term: V | None = None
            for value in monomial:
                factor = self.wide(value, self.scalar(value))
                term = factor if term is None else self.code.mul(term, factor)
            factor = self.code.i64(coefficient)
            term = factor if term is None else self.code.mul(term, factor)
            total = term if total is None else self.code.add(total, term)
        return total or self.code.i64(0)

    # --- tiles ----------------------------------------------------------------------------------------

    def at(self, value: ir.Value, place: Place) -> V:
        """The value at a place: a vector if it changes along the vector dimension (it may be one anyway)."""
        if not value.type.is_tile:
            return self.scalar(value)
        key = (value, tuple((i.base.text, i.vec) for i in place))
        scopes = self.code.scopes
        if self.known and (key, "leaned") in scopes[-1].memo:
            self.leaned = True
            return scopes[-1].memo[key, "leaned"]
        for scope in reversed(scopes[self.code.floor :]):
            if key in scope.memo:
                return scope.memo[key]
        before, self.leaned = self.leaned, False
        result = self._compute(value, place)
        if self.leaned:
            scopes[-1].memo[key, "leaned"] = result
        else:
            scopes[max(result.depth, self.code.floor)].memo[key] = result
        self.leaned = self.leaned or before
        return result

    def _compute(self, value: ir.Value, place: Place) -> V:
        if value in self.context.buffers:
            return self.memory.read(self.context.buffers[value], place)
        op = value.owner
        assert op is not None, "a tile argument has a buffer"
        if self.known and value.type.dtype.is_bool and self._granted(value, op, place):
            self.leaned = True
            return self.code.const(True, I1)
        if op.opcode == "const":
            return self.code.const(op.attrs["value"], register(value.type.element))  # type: ignore[arg-type]
        dims = source_dims(op)
        if dims is not None:
            zero = Index(self.code.i64(0))
            return self.at(op.operands[0], tuple(zero if d is None else place[d] for d in dims))
        if op.opcode == "load":
            return self.memory.load(op, place)
        if value.type.dtype.is_int and not value.type.is_pointer and not value.type.dtype.is_bool:
            form = self.context.analysis.of(value)
            if not form.others:
                return self._affine(value, form, place)
        if op.opcode == "select":
            return self._select(op, place)
        args = [self.at(v, place) for v in op.operands]
        if op.opcode == "and" and any(a.const == 1 and a.type == I1 for a in args):
            return args[1] if args[0].const == 1 else args[0]
        return self.elementwise.emit(op, args)

    def _select(self, op: ir.Op, place: Place) -> V:
        condition = self.at(op.operands[0], place)
        if condition.const is not None:
            return self.at(op.operands[1 if condition.const else 2], place)
        a, b = self.at(op.operands[1], place), self.at(op.operands[2], place)
        return self.elementwise.emit(op, [condition, a, b])

    def _affine(self, value: ir.Value, form: Affine, place: Place) -> V:
        """base + Σ stride · index, computed in 64 bits and cut to the value's type."""
        code = self.code
        total = self.poly(form.base)
        step: V | None = None
        for stride, index in sorted(zip(form.strides, place, strict=True), key=lambda p: p[1].base.depth):
            if stride == ZERO:
                continue
            factor = self.poly(stride)
            total = code.add(total, code.mul(factor, index.base))
            if index.vec:
                step = factor
        elt = register(value.type.element).elt
        total = self._cut(total, elt)
        if step is None:
            return total
        iota = code.iota(elt, self.lanes)
        step = self._cut(step, elt)
        ramp = iota if step.const == 1 else code.bin("mul", iota, code.splat(step, self.lanes))
        return code.bin("add", code.splat(total, self.lanes), ramp)

    def _cut(self, v: V, elt: str) -> V:
        if elt == "i64":
            return v
        return self.code.const(v.const, T(elt)) if v.const is not None else self.code.cast("trunc", v, elt)

    # --- conditions -----------------------------------------------------------------------------------

    def _granted(self, value: ir.Value, op: ir.Op, place: Place) -> bool:
        """Whether a condition is among those that hold here."""
        dims = tuple(i.dim for i in place)
        if (value, dims) in self.known.flags:
            return True
        form = difference(self.context.analysis, op) if self.known.holds else None
        return form is not None and spread(form, dims) in self.known.holds

    def condition(self, value: ir.Value, place: Place) -> V | None:
        """A mask at a place; None when it is known to hold."""
        mask = self.at(value, place)
        return None if mask.const is True or mask.const == 1 else mask


def difference(analysis: Analysis, op: ir.Op) -> Affine | None:
    """A signed integer comparison as "form < 0"; None for others."""
    if op.opcode != "cmp":
        return None
    dtype = op.operands[0].type.element
    pred = op.attrs.get("pred")
    if not isinstance(dtype, ir.DType) or not dtype.is_signed or dtype.bits < 32:
        return None
    if pred not in ("lt", "le", "gt", "ge"):
        return None
    a, b = (analysis.of(v) for v in op.operands)
    if pred in ("gt", "ge"):
        a, b = b, a
    form = a.minus(b)
    if pred in ("le", "ge"):
        form = Affine(form.base + Poly.const(-1), form.strides, form.others)
    return form


def spread(form: Affine, dims: Dims) -> Affine:
    """A form over the loop's dimensions, without trailing strides of 0: equal conditions compare equal."""
    rank = 1 + max((d for d in dims if d is not None), default=-1)
    form = form.placed(dims, rank)
    strides = list(form.strides)
    while strides and strides[-1] == ZERO:
        strides.pop()
    return Affine(form.base, tuple(strides), form.others)
