"""How far a loop can run before any of its masks turns off."""

from __future__ import annotations

from collections.abc import Iterable

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import ZERO, Affine, Analysis, Dims, source_dims
from portkit.runtime.tile.lower.emit import I64, V
from portkit.runtime.tile.lower.evaluate import Evaluator, difference, spread
from portkit.runtime.tile.lower.place import Index, Known


def conjuncts(mask: ir.Value, dims: Dims) -> Iterable[tuple[ir.Value, Dims]]:
    """The conditions that a mask is the conjunction of."""
    op = mask.owner
    if op is not None and mask.type.is_tile:
        if op.opcode == "and":
            for value in op.operands:
                yield from conjuncts(value, dims)
            return
        source = source_dims(op)
        if source is not None and op.operands[0].type.is_tile:
            yield from conjuncts(op.operands[0], tuple(None if d is None else dims[d] for d in source))
            return
    yield mask, dims


class Bounds:
    """The conditions of a loop nest that hold up to a limit along its vector dimension."""

    def __init__(self, analysis: Analysis, vector: int) -> None:
        self.analysis = analysis
        self.vector = vector
        self.forms: dict[Affine, None] = {}
        self.flags: dict[tuple[ir.Value, Dims], None] = {}

    def take(self, mask: ir.Value, dims: Dims, banned: int | None = None) -> None:
        """Adds the conditions of a mask, but for those that change along the dimension `banned`."""
        for value, places in conjuncts(mask, dims):
            op = value.owner
            form = difference(self.analysis, op) if op is not None else None
            if form is not None and value.type.is_tile:
                placed = spread(form, places)
                if self._usable(placed) and not (banned is not None and self._follows(placed, banned)):
                    self.forms[placed] = None
            elif self.vector not in places and banned not in places and value.type.is_tile:
                self.flags[value, places] = None

    def _usable(self, form: Affine) -> bool:
        if self.vector >= len(form.strides):
            return not any(term.follows(self.vector) for term, _ in form.others)
        number = form.strides[self.vector].number
        return number is not None and number >= 0 and form.regular(self.vector)

    def _follows(self, form: Affine, dim: int) -> bool:
        return (dim < len(form.strides) and form.strides[dim] != ZERO) or any(
            term.follows(dim) for term, _ in form.others
        )

    def known(self) -> Known:
        return Known(frozenset(self.forms), frozenset(self.flags))

    def limit(self, evaluator: Evaluator, size: int, outer: dict[int, Index]) -> V:
        """The number of leading lanes for which all conditions hold (i64)."""
        code = evaluator.code
        limit = code.i64(size)
        for form in self.forms:
            limit = code.smin(limit, self._limit_of(evaluator, form, size, outer))
        for value, dims in self.flags:
            zero = Index(code.i64(0))
            flag = evaluator.at(value, tuple(zero if d is None else outer[d] for d in dims))
            limit = code.select(flag, limit, code.i64(0))
        return code.smax(limit, code.i64(0))

    def _limit_of(self, evaluator: Evaluator, form: Affine, size: int, outer: dict[int, Index]) -> V:
        code = evaluator.code
        rest = evaluator.poly(form.base)
        step = 0
        for dim, stride in enumerate(form.strides):
            if dim == self.vector:
                step = stride.number or 0
            elif stride != ZERO:
                rest = code.add(rest, code.mul(evaluator.poly(stride), outer[dim].base))
        for term, coefficient in sorted(form.others, key=lambda t: evaluator.context.number(t[0].value)):
            place = tuple(Index(code.i64(0)) if d is None else outer[d] for d in term.dims)
            value = evaluator.wide(term.value, evaluator.at(term.value, place))
            rest = code.add(rest, code.mul(evaluator.poly(coefficient), value))
        if step == 0:
            holds = code.compare("icmp slt", rest, code.i64(0))
            return code.select(holds, code.i64(size), code.i64(0))
        lead = code.sub(code.i64(0), rest)
        if step == 1:
            return lead
        return code.bin("sdiv", code.add(lead, code.i64(step - 1)), code.const(step, I64))
