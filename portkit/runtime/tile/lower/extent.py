"""How much of the depth of a product is filled: beyond it both operands are masked off, nothing is added."""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import ZERO, source_dims
from portkit.runtime.tile.lower.bounds import Bounds
from portkit.runtime.tile.lower.emit import V
from portkit.runtime.tile.lower.evaluate import Evaluator


def depth_of(evaluator: Evaluator, left: ir.Value, right: ir.Value, step: int) -> V:
    """The filled depth, a multiple of `step` (i64, from 0 to the whole depth).

    A product of two zeros adds nothing; where one operand only is masked off, the other may still hold NaN.
    """
    code = evaluator.code
    depth = left.type.shape[1]
    first, second = _filled(evaluator, left, 1), _filled(evaluator, right, 0)
    if first is None or second is None:
        return code.i64(depth)
    filled = code.smax(first, second)
    if filled.const is not None:
        return code.i64(-(-int(filled.const) // step) * step)
    up = code.add(filled, code.i64(step - 1))
    return code.smin(code.i64(depth), code.bin("and", up, code.i64(-step)))


def _filled(evaluator: Evaluator, value: ir.Value, axis: int) -> V | None:
    """The index along an axis from which on the mask of a load is off; None if no mask says so."""
    op = value.owner
    if op is None or op.opcode != "load" or not op.attrs.get("has_mask"):
        return None
    if op.attrs.get("has_other") and not is_zero(op.operands[2]):
        return None
    bounds = Bounds(evaluator.context.analysis, axis)
    bounds.take(op.operands[1], (0, 1))
    bounds.flags.clear()
    for form in list(bounds.forms):
        moves = [dim for dim, stride in enumerate(form.strides) if stride != ZERO]
        if moves != [axis] or any(term.dims for term, _ in form.others):
            del bounds.forms[form]
    return bounds.limit(evaluator, value.type.shape[axis], {}) if bounds.forms else None


def is_zero(value: ir.Value) -> bool:
    """Whether a value is the constant 0, perhaps spread over a tile."""
    op = value.owner
    while op is not None and source_dims(op) is not None:
        op = op.operands[0].owner
    return op is not None and op.opcode == "const" and op.attrs["value"] == 0
