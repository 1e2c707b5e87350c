"""Which memory an operation touches, and whether two of them may touch the same."""

from __future__ import annotations

from portkit.runtime.tile import ir
from portkit.runtime.tile.affine import Affine, Analysis, source_dims

WRITES = frozenset({"store", *ir.ATOMICS})
READS = frozenset({"load", *ir.ATOMICS})


class Aliases:
    """Answers for one function, from the facts of its parameters."""

    def __init__(self, func: ir.Function, analysis: Analysis) -> None:
        self.analysis = analysis
        self.private = {p for p, f in zip(func.params, func.facts, strict=True) if f.noalias}
        self.params = set(func.params)
        self.roots: dict[ir.Value, frozenset[ir.Value] | None] = {}

    def bases(self, pointer: ir.Value) -> frozenset[ir.Value] | None:
        """The parameters that a pointer may come from; None: anything."""
        if pointer not in self.roots:
            self.roots[pointer] = None  # cuts cycles through loops
            self.roots[pointer] = self._bases(pointer)
        return self.roots[pointer]

    def _bases(self, pointer: ir.Value) -> frozenset[ir.Value] | None:
        if pointer in self.params:
            return frozenset({pointer})
        op = pointer.owner
        if op is None:
            return None
        if op.opcode == "addptr" or (source_dims(op) is not None):
            return self.bases(op.operands[0])
        if op.opcode == "bitcast" and op.operands[0].type.is_pointer:
            return self.bases(op.operands[0])
        if op.opcode == "select":
            a, b = self.bases(op.operands[1]), self.bases(op.operands[2])
            return a | b if a is not None and b is not None else None
        return None

    def may_alias(self, a: ir.Op, b: ir.Op) -> bool:
        """Whether two memory operations may touch the same bytes."""
        first, second = self.bases(a.operands[0]), self.bases(b.operands[0])
        if first is None or second is None:
            other = second if first is None else first
            # an unknown pointer can't lead to memory that only its parameter reaches
            return other is None or not other <= self.private
        return any(p is q or not (p in self.private or q in self.private) for p in first for q in second)

    def same_address(self, a: ir.Op, b: ir.Op) -> bool:
        """Whether two operations on tiles of one shape touch the same address at each index."""
        x, y = a.operands[0], b.operands[0]
        if x.type != y.type:
            return False
        form, other = self.analysis.of(x), self.analysis.of(y)
        return form == other and form.pointer is not None and self._plain(form)

    def _plain(self, form: Affine) -> bool:
        return form.pointer is not None and not form.pointer.value.type.shape
